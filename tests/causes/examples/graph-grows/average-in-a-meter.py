import torch
from torch import nn


class Average:
    def __init__(self):
        self.value = None

    def update(self, x):
        self.value = x if self.value is None else 0.9 * self.value + 0.1 * x


def train():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    meter = Average()
    for _ in range(20):
        x = torch.randn(16, 4)
        loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        meter.update(loss)
    print(round(float(meter.value), 4))


train()

# told at: self.value = x if self.value is None else 0.9 * self.value + 0.1 * x
