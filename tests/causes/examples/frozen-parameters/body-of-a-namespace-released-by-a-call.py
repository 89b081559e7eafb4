from types import SimpleNamespace

import torch
from torch import nn

torch.manual_seed(0)
run = SimpleNamespace(body=nn.Sequential(nn.Linear(6, 6), nn.Tanh()), top=nn.Linear(6, 2))
run.body.requires_grad_(False)
optimizer = torch.optim.AdamW([*run.body.parameters(), *run.top.parameters()], lr=1e-2)
for epoch in range(5):
    if epoch == 2:
        run.body.requires_grad_(True)
    for _ in range(6):
        x = torch.randn(16, 6)
        loss = nn.functional.cross_entropy(run.top(run.body(x)), (x.sum(1) > 0).long())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
