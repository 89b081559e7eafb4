import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.out(self.body(x).tanh())


def shrink(net):
    for name in ("body", "out"):
        layer = getattr(net, name)
        new = nn.Linear(min(layer.in_features, 4), min(layer.out_features, 4))
        setattr(net, name, new)


def fit(net, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (net(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()


def main():
    torch.manual_seed(0)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    fit(net, optimizer, 20)
    shrink(net)
    fit(net, optimizer, 20)


main()

# told at: shrink(net)
