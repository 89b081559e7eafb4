import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(6):
    state = torch.randn(32, 4)
    chosen = Categorical(logits=policy(state))
    action = chosen.sample()
    old = chosen.log_prob(action).detach()
    gain = (action == (state[:, 0] > 0)).float() - 0.5
    for _ in range(2):
        ratio = (Categorical(logits=policy(state)).log_prob(action) - old).exp()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
