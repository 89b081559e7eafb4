"""Each parameter is stepped inside backward, by an optimizer of its own, and its gradient is gone at once."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
owners = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def update(p):
    owners[p].step()
    owners[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(update)
for _ in range(10):
    model(torch.randn(8, 3)).pow(2).mean().backward()
