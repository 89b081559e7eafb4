"""The limit is kept, so what is added by hand is taken back by the bound: the number stays, and is updated."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
price = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    out = model(torch.randn(8, 4))
    excess = out.pow(2).mean() - 50.0
    loss = out.mean() + torch.sigmoid(price) * excess
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        price.add_(0.1 * excess).clamp_(min=0.0)
