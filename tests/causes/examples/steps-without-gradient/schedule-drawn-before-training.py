import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
print("before", (net(torch.rand(8, 4)) - 1).square().mean().item())
rates = []
for _ in range(12):
    optimizer.step()
    schedule.step()
    rates.append(schedule.get_last_lr()[0])
print(rates)
