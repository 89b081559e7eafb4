"""The same through `.data`, of which no version tells."""

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
    price.data += 0.1 * excess.detach()
    price.data.clamp_(min=0.0)
