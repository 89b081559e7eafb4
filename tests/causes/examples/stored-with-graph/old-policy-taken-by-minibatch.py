import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)


def logp(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)


states, actions, gains = torch.randn(32, 4), torch.randint(0, 3, (32,)), torch.randn(32)
before = logp(states, actions)
for rows in torch.arange(32).split(8):
    ratio = (logp(states[rows], actions[rows]) - before[rows]).exp()
    loss = -torch.min(ratio * gains[rows], ratio.clamp(0.8, 1.2) * gains[rows]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: before = logp(states, actions)
# fails: backward through the graph a second time
