import torch
from torch import nn

torch.manual_seed(0)
camera = nn.Conv2d(1, 1, 3, padding=1)
judge = nn.Sequential(nn.Flatten(), nn.Linear(36, 4))
optimizer = torch.optim.SGD([*camera.parameters(), *judge.parameters()], lr=0.1)
for step in range(3):
    seen = camera(torch.rand(2, 1, 6, 6))
    seen.requires_grad = True
    optimizer.zero_grad()
    judge(seen).square().mean().backward()
    optimizer.step()
    print(seen.grad.abs().mean().item())

# told at: seen.requires_grad = True
# fails: you can only change requires_grad flags of leaf variables
