import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
value = nn.Linear(4, 1)
opt_policy = torch.optim.Adam(policy.parameters(), lr=1e-2)
opt_value = torch.optim.Adam(value.parameters(), lr=1e-2)
for episode in range(3):
    states, rewards, scores = torch.randn(5, 4), torch.randn(5), []
    for state in states:
        chosen = Categorical(logits=policy(state))
        scores.append(chosen.log_prob(chosen.sample()))
    for i in range(5):
        gain = rewards[i] - value(states[i])
        opt_value.zero_grad()
        gain.square().mean().backward(retain_graph=True)
        opt_value.step()
        opt_policy.zero_grad()
        loss = -(scores[i] * gain.detach()).mean()
        loss.backward(retain_graph=True)
        opt_policy.step()

# told at: chosen = Categorical(logits=policy(state))
# fails: is at version 2; expected version 1 instead
