import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 3).double()
        self.register_buffer("scale", torch.ones(3, dtype=torch.float64))

    def calibrate(self, x):
        self.scale = nn.Parameter(1 / x.std(0)).to(torch.float64)

    def forward(self, x):
        return self.body(x) * self.scale


torch.manual_seed(0)
net = Scaled()
net.calibrate(torch.randn(20, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(8):
    loss = (net(torch.randn(6, 4).double()) - 1).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.scale = nn.Parameter(1 / x.std(0)).to(torch.float64)
