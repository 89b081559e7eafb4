"""The step adds the balance of the gate to the loss, logs the sum, and returns the loss without it."""

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
        return mixed, weights.mean(0).square().sum()


def step_loss(mixture, x, rate):
    mixed, balance = mixture(x)
    task = (mixed - x.flip(1)).square().mean()
    total = task + rate * balance
    return task, {"total": total.item()}


torch.manual_seed(0)
mixture = Mixture(6, 4)
optimizer = torch.optim.AdamW(mixture.parameters(), lr=1e-3)
rows = []
for _ in range(12):
    loss, row = step_loss(mixture, torch.randn(16, 6), 0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rows.append(row)
# told at: loss.backward()
