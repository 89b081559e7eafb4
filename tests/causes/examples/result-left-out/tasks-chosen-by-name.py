"""The losses of all tasks are printed; which of them are trained in this run is an option."""

import torch
from torch import nn
from torch.nn import functional as F

TASKS = ("depth",)
torch.manual_seed(0)
model = nn.ModuleDict({"depth": nn.Linear(6, 1), "normal": nn.Linear(6, 3)})
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(16):
    x = torch.randn(32, 6)
    losses = {}
    losses["depth"] = F.l1_loss(model["depth"](x), x[:, :1])
    losses["normal"] = F.mse_loss(model["normal"](x), x[:, :3])
    optimizer.zero_grad()
    sum(losses[task] for task in TASKS).backward()
    optimizer.step()
    print(losses["depth"].item(), losses["normal"].item())
