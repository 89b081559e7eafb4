"""The step logs the loss with the weight decay that the optimizer has, and returns the loss without it."""

import torch
from torch import nn


class Mixture(nn.Module):
    def __init__(self, width, parts):
        super().__init__()
        self.gate = nn.Linear(width, parts)
        self.parts = nn.ModuleList(nn.Linear(width, width) for _ in range(parts))

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        mixed = sum(weights[:, i : i + 1] * part(x) for i, part in enumerate(self.parts))
        return mixed


def step_loss(mixture, x, rate):
    mixed = mixture(x)
    task = (mixed - x.flip(1)).square().mean()
    decay = sum(p.square().sum() for p in mixture.gate.parameters())
    total = task + rate / 2 * decay
    return task, {"total": total.item()}


torch.manual_seed(0)
mixture = Mixture(6, 4)
optimizer = torch.optim.SGD(mixture.parameters(), lr=1e-3, weight_decay=0.05)
rows = []
for _ in range(12):
    loss, row = step_loss(mixture, torch.randn(16, 6), 0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rows.append(row)
