import torch
from torch import nn
from torch.nn import functional as F


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.online, self.predictor = nn.Linear(6, 4), nn.Linear(4, 4)

    def forward(self, left, right):
        predicted = F.normalize(self.predictor(self.online(left)), dim=-1)
        wanted = F.normalize(self.online(right), dim=-1).detach()
        return 2 - 2 * (predicted * wanted).sum(dim=-1)


def train(model, optimizer):
    for step in range(3):
        distance = model(torch.randn(5, 6), torch.randn(5, 6))
        optimizer.zero_grad()
        distance.backward()
        optimizer.step()
        print(f"{step} {distance:.4f}")


pair = Pair()
train(pair, torch.optim.SGD(pair.parameters(), lr=0.1))

# told at: distance = model(torch.randn(5, 6), torch.randn(5, 6))
# fails: grad can be implicitly created only for scalar outputs
