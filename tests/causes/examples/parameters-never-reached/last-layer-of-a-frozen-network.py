import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.middle = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(self.middle(self.features(x)))


torch.manual_seed(0)
model = Net()
for p in model.features.parameters():
    p.requires_grad = False
optimizer = torch.optim.SGD(model.last.parameters(), lr=0.01)
for _ in range(12):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(0, 3, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
