"""The weights are moved by hand; the optimizer steps for its schedule's sake."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
batch = torch.randn(4, 3)
for _ in range(12):
    loss = net(batch).square().mean()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(schedule.get_last_lr()[0] * torch.randn_like(p))
    optimizer.step()
    schedule.step()
print(loss.item())
