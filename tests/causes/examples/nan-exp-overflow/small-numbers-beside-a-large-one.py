"""The exponent has numbers far below zero, which do no harm, and one that is too large."""
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = torch.randn(8, 3)
    if step == 2:
        x[0, 0], x[1, 0] = 400.0, -4000.0
    log_rate = model(x)[:, 0] + x[:, 0].detach()
    rate = log_rate.exp()
    loss = (rate - log_rate).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss), "the loss is not finite"

# told at: rate = log_rate.exp()
# fails: the loss is not finite
