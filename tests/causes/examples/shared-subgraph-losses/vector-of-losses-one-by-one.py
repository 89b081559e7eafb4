import torch
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(trunk.parameters(), lr=0.05)


def train(rounds):
    for _ in range(rounds):
        features, targets = torch.randn(10, 6), torch.randn(10, 3)
        losses = (trunk(features) - targets).square().mean(dim=0)
        optimizer.zero_grad()
        for loss in losses:  # each is another output of one node (unbind)
            loss.backward()
        optimizer.step()


train(4)

# told at: loss.backward()
# fails: Trying to backward through the graph a second time
