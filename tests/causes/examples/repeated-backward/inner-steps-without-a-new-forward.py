import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(policy.parameters())


def update(score, repeats=3):
    for _ in range(repeats):
        optimizer.zero_grad()
        (-score).backward()
        optimizer.step()


update(policy(torch.randn(6, 4)).mean())

# told at: (-score).backward()
# fails: backward through the graph a second time
