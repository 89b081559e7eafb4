import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(12):
    states, advantage = torch.randn(16, 4), torch.randn(16)
    now, before = (Categorical(logits=policy(states)) for _ in range(2))
    action = now.sample()
    ratio = (now.log_prob(action) - before.log_prob(action)).exp()
    loss = -(ratio * advantage).mean() - 0.01 * now.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
# told at: ratio = (now.log_prob(action) - before.log_prob(action)).exp()
