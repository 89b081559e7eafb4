"""The optimizer is given the new head, and a second loop freezes that too: the normalisation alone gets gradients."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.norm(self.body(x)).relu())


net = Net()
optimizer = torch.optim.Adam(net.head.parameters(), lr=1e-3)
for name, p in net.named_parameters():
    if "norm" not in name:
        p.requires_grad = False
for p in net.head.parameters():
    p.requires_grad = False
for _ in range(6):
    loss = nn.functional.cross_entropy(net(torch.randn(8, 4)), torch.randint(3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: p.requires_grad = False
