import torch
from torch import nn


def distances(points):
    gaps = points[:, None] - points[None, :]
    return gaps.pow(2).sum(-1).sqrt()


def farthest(points):
    itself = torch.eye(len(points), dtype=torch.bool)
    return distances(points).masked_fill(itself, 0.0).max(1).values


def train():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(10):
        loss = farthest(model(torch.randn(5, 3))).mean()
        if not torch.isfinite(loss):
            print("left out")
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
train()

# told at: return gaps.pow(2).sum(-1).sqrt()
