import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
memory = []
for _ in range(8):
    obs = torch.randn(4)
    dist = torch.distributions.Categorical(logits=policy(obs))
    action = dist.sample()
    memory.append((obs, action, dist.log_prob(action).detach()))
for epoch in range(2):
    for obs, action, old in memory:
        logp = torch.distributions.Categorical(logits=policy(obs)).log_prob(action)
        optimizer.zero_grad()
        (-(logp - old).exp()).backward()
        optimizer.step()
