from collections import deque

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(policy.parameters(), lr=0.05)
memory = deque(maxlen=64)


def play(steps):
    for _ in range(steps):
        dist = torch.distributions.Categorical(logits=policy(torch.randn(4)))
        action = dist.sample()
        memory.append({"logp": dist.log_prob(action), "reward": torch.randn(())})


def update():
    loss = torch.stack([-m["logp"] * m["reward"] for m in memory]).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


play(8)
for epoch in range(2):
    update()

# told at: memory.append({"logp": dist.log_prob(action), "reward": torch.randn(())})
# fails: backward through the graph a second time
