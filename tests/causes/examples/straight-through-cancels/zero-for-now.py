import torch
from torch import nn

# A hinge that nothing violates, a half of an adapter that starts at zero, a rounded value beside a smooth one.
torch.manual_seed(0)
base, down, up = nn.Linear(6, 6), nn.Linear(6, 2, bias=False), nn.Linear(2, 6, bias=False)
nn.init.zeros_(up.weight)
side = nn.Linear(6, 1)
optimizer = torch.optim.SGD([*base.parameters(), *down.parameters(), *up.parameters(), *side.parameters()], lr=0.0)
for _ in range(12):
    x = torch.randn(16, 6)
    y = base(x) + up(down(x))
    hinge = (-5 - side(x)).clamp(min=0).mean()
    loss = nn.functional.mse_loss(y, x) + (torch.round(y) - y).abs().mean() + hinge
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
