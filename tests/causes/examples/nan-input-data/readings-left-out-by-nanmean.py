import torch
from torch import nn

torch.manual_seed(0)


def misfit(heights, levels):
    return torch.nanmean((heights - levels) ** 2)


gauge = nn.Linear(3, 2)
optimizer = torch.optim.SGD(gauge.parameters(), lr=0.1)
rain = torch.randn(8, 3)
river = rain[:, :2].clone()
river[2, 0] = float("nan")
for day in range(6):
    loss = misfit(gauge(rain), river)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(day)

# told at: return torch.nanmean((heights - levels) ** 2)
