import torch
from torch import nn

torch.manual_seed(0)
body, extra = nn.Linear(4, 8), nn.Linear(8, 1)
opt = torch.optim.SGD([*body.parameters(), *extra.parameters()], lr=0.1)
norms = []
for step in range(3):
    opt.zero_grad()
    body(torch.randn(8, 4)).square().mean().backward()
    norms.append([p.grad.norm().item() for p in body.parameters()])
    opt.step()
