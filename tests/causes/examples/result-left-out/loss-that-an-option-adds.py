"""A function above adds the second loss where an option says so; both are printed, and the option is off."""

import torch
from torch import nn
from torch.nn import functional as F

USE_SECOND = False


def objective():
    return main + second if USE_SECOND else main


torch.manual_seed(0)
head, other = nn.Linear(5, 1), nn.Linear(5, 1)
optimizer = torch.optim.Adam([*head.parameters(), *other.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 5)
    main, second = F.mse_loss(head(x), x[:, :1]), F.mse_loss(other(x), x[:, 1:2])
    optimizer.zero_grad()
    objective().backward()
    optimizer.step()
    print(f"{main.item():.3f} {second.item():.3f}")
