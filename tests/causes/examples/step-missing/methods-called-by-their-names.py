"""One helper clears and steps, by the name of the method, the optimizers that this run is to train."""

import torch
from torch import nn
from torch.nn import functional as F

TRAINED = ["head"]
torch.manual_seed(0)
parts = nn.ModuleDict({"body": nn.Linear(6, 8), "head": nn.Linear(8, 2)})
optimizers = {name: torch.optim.Adam(part.parameters(), lr=1e-2) for name, part in parts.items()}


def each(names, method):
    for name in names:
        getattr(optimizers[name], method)()


for _ in range(12):
    x = torch.randn(16, 6)
    each(optimizers, "zero_grad")
    F.cross_entropy(parts["head"](parts["body"](x).relu()), (x[:, 0] > 0).long()).backward()
    each(TRAINED, "step")
