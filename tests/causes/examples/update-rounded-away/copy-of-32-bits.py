"""The optimizer steps a copy of 32 bits, and the model gets the numbers of that."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1)).to(torch.bfloat16)
masters = [p.detach().float().requires_grad_() for p in model.parameters()]
optimizer = torch.optim.AdamW(masters, lr=1e-5)
for _ in range(12):
    x = torch.randn(64, 32, dtype=torch.bfloat16)
    loss = (model(x) - x[:, :1]).float().square().mean()
    model.zero_grad()
    loss.backward()
    for master, p in zip(masters, model.parameters()):
        master.grad = p.grad.float()
    optimizer.step()
    with torch.no_grad():
        for master, p in zip(masters, model.parameters()):
            p.copy_(master)
