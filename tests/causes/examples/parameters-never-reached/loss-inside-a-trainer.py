import torch
from torch import nn


class Balance(nn.Module):
    def __init__(self):
        super().__init__()
        self.balance = nn.Parameter(torch.tensor(0.0))

    def forward(self, near, far):
        return near + far * self.balance.exp() - self.balance


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.loss = Balance()

    def step(self, x):
        y = self.model(x)
        loss = self.loss((y - x).pow(2).mean(), y.abs().mean())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(nn.Linear(3, 3))
for _ in range(12):
    trainer.step(torch.randn(6, 3))

# told at: self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
