import torch
from torch import nn

torch.manual_seed(0)
scores = nn.Linear(4, 1), nn.Linear(4, 1)
optimizers = [torch.optim.SGD(s.parameters(), lr=5e-2) for s in scores]
for turn in range(12):
    x = torch.randn(20, 4)
    with torch.set_grad_enabled(turn % 2 == 0):
        first = scores[0](x)
    with torch.set_grad_enabled(turn % 2 == 1):
        second = scores[1](x)
    loss = -((first + second) * x[:, :1]).mean()
    optimizers[turn % 2].zero_grad()
    loss.backward()
    optimizers[turn % 2].step()
