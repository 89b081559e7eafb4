from types import SimpleNamespace

import torch
from torch import nn

torch.manual_seed(0)
run = SimpleNamespace(model=nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), total=0)
optimizer = torch.optim.Adam(run.model.parameters())
for _ in range(20):
    x = torch.randn(16, 4)
    loss = (run.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    run.total += loss
print(f"mean loss {run.total / 20:.4f}")

# told at: run.total += loss
