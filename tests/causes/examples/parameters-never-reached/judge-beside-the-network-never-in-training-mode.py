import torch
from torch import nn

torch.manual_seed(0)


class Judge(nn.Module):
    """Random features, left as they are."""

    def __init__(self):
        super().__init__()
        self.features = nn.Linear(4, 16)

    def forward(self, x):
        return torch.relu(self.features(x))


def epoch(network, judge, optimizer):
    network.train()
    for _ in range(12):
        x = torch.randn(16, 4)
        loss = (judge(network(x)) - judge(x)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


network = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
judge = Judge()
judge.train()
optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
epoch(network, judge, optimizer)
