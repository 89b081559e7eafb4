import torch
from torch import nn

torch.manual_seed(0)


class Scaled(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size))
        self.scale = None

    def spread(self):
        return self.weight.abs().max() / 7

    def forward(self, x):
        if self.scale is None:
            self.scale = self.spread()
        return x @ (self.weight / self.scale).tanh()


net = nn.Sequential(Scaled(4), nn.ReLU(), Scaled(4))
optimizer = torch.optim.Adam(net.parameters())
x, y = torch.randn(8, 4), torch.randn(8, 4)
net(x)

net(x).square().mean().backward()
sensitivity = [p.grad.abs() for p in net.parameters()]
optimizer.zero_grad()
for _ in range(3):
    loss = (net(x) - y).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()

# told at: self.scale = self.spread()
# fails: backward through the graph a second time
