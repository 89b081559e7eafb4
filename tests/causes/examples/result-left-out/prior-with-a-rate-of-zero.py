"""The prior is only measured in this stage: its group of the optimizer has a learning rate of zero."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
coder, prior = nn.Linear(6, 6), nn.Linear(6, 6)
optimizer = torch.optim.Adam([{"params": coder.parameters(), "lr": 1e-2}, {"params": prior.parameters(), "lr": 0.0}])
for _ in range(12):
    x = torch.randn(16, 6)
    code = coder(x)
    loss, measured = F.mse_loss(code, x), prior(code.detach()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f} {measured.item():.3f}")
