import torch
from torch import nn

# The outer loss gathers terms while an inner optimizer steps; it is differentiated at the end, once.
torch.manual_seed(0)
scale = nn.Parameter(torch.ones(()))
outer = torch.optim.SGD([scale], lr=0.01)
model = nn.Linear(4, 1)
inner = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(4):
    total = 0
    for _ in range(8):
        x = torch.randn(16, 4)
        inner.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        inner.step()
        total = total + (scale * model(x).detach() - x.sum(1, keepdim=True)).pow(2).mean()
    outer.zero_grad()
    total.backward()
    outer.step()
