import torch
from torch import nn


def deflection(x):
    return torch.where(
        x > 1,
        torch.atan((x**2 - 1).sqrt()) / (x**2 - 1).sqrt(),
        torch.where(x < 1, torch.atanh((1 - x**2).sqrt()) / (1 - x**2).sqrt(), 1.0),
    )


scale, mass = nn.Parameter(torch.tensor(1.3)), nn.Parameter(torch.tensor(0.7))
radius = torch.linspace(0.2, 4.0, 32)
seen = 2 * deflection(radius / 1.1)
optimizer = torch.optim.Adam([scale, mass], lr=0.01)
for _ in range(6):
    loss = (mass * deflection(radius / scale) - seen).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: torch.atan((x**2 - 1).sqrt()) / (x**2 - 1).sqrt(),
