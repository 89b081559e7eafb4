import torch
from torch import nn

torch.manual_seed(0)


class Wrapped:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def backward(self, loss):
        loss.backward()

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


class Criterion:
    def forward(self, model, x, optimizer):
        loss = model(x).pow(2).mean()
        optimizer.backward(loss)
        return loss


model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = Wrapped(torch.optim.SGD(model.parameters(), lr=0.1))
criterion = Criterion()


def train_step(x):
    criterion.forward(model, x, optimizer)
    optimizer.backward(model(-x).abs().mean())
    optimizer.update()


for _ in range(2):
    train_step(torch.randn(4, 3))
