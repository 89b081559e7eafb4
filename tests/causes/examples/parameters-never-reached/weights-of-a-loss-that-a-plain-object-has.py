import torch
from torch import nn


class TwoTerms(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))

    def forward(self, out, target):
        size, sign = (out - target).square().mean(), (out.tanh() - target.tanh()).square().mean()
        return (size * (-self.first).exp() + self.first + sign * (-self.second).exp() + self.second).sum()


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.loss = model, optimizer, TwoTerms()

    def round(self, x):
        loss = self.loss(self.model(x), x.sum(1, keepdim=True))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
trainer = Trainer(model, optimizer)
for _ in range(15):
    value = trainer.round(torch.randn(16, 4))
print(f"{value:.3f}")

# told at: optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
