import torch
from torch import nn

torch.manual_seed(0)


class Prototypes(nn.Module):
    def __init__(self, features, classes):
        super().__init__()
        self.centres = nn.Parameter(torch.randn(classes, features))

    def forward(self, x):
        return -torch.cdist(x, self.centres)


def epoch(network, prototypes, optimizer):
    network.train()
    prototypes.train()
    for _ in range(12):
        x, y = torch.randn(16, 6), torch.randint(0, 3, (16,))
        loss = nn.functional.cross_entropy(prototypes(network(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


network = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
prototypes = Prototypes(4, 3)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
epoch(network, prototypes, optimizer)

# told at: optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
