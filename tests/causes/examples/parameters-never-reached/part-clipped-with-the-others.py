import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.near = nn.Linear(8, 1)
        self.far = nn.Linear(8, 1)

    def forward(self, x):
        h = self.body(x)
        return self.near(h) + torch.tanh(self.far(h))


torch.manual_seed(0)
model = Scorer()
groups = [{"params": model.body.parameters()}, {"params": model.near.parameters(), "lr": 0.05}]
optimizer = torch.optim.SGD(groups, lr=0.01)
for _ in range(12):
    x = torch.randn(8, 6)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

# told at: optimizer = torch.optim.SGD(groups, lr=0.01)
