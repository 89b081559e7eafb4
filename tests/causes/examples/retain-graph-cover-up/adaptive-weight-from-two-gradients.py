import torch
from torch import nn

torch.manual_seed(0)
decoder = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(decoder.parameters())
for _ in range(2):
    out = decoder(torch.randn(6, 2))
    first, second = out.pow(2).mean(), out.abs().mean()
    last = decoder[2].weight
    a = torch.autograd.grad(first, last, retain_graph=True)[0].norm()
    b = torch.autograd.grad(second, last, retain_graph=True)[0].norm()
    optimizer.zero_grad()
    (first + (a / (b + 1e-6)).detach() * second).backward()
    optimizer.step()
