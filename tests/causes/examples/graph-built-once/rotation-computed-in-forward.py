import torch
from torch import nn


class Rotate(nn.Module):
    def __init__(self):
        super().__init__()
        self.skew = nn.Parameter(0.1 * torch.randn(3, 3))

    def forward(self, x):
        return x @ torch.linalg.matrix_exp(self.skew - self.skew.T)


torch.manual_seed(0)
net = Rotate()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for _ in range(3):
    loss = (net(torch.randn(4, 3)) - 1).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
