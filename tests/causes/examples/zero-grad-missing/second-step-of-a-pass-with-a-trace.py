"""The second step of each pass is made of its own loss and of a trace of the first, which the program damps."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(12):
    x = torch.randn(8, 3)
    model.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    for p in model.parameters():
        p.grad.mul_(0.5)
    model(x).abs().mean().backward()
    optimizer.step()
