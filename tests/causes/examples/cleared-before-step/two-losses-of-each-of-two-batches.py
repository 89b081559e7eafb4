import torch
from torch import nn
from torch.nn import functional as F


class Restorer:
    def __init__(self, every):
        self.every = every
        self.fill = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 6))
        self.judge = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
        self.by_fill = torch.optim.Adam(self.fill.parameters(), lr=1e-3)
        self.by_judge = torch.optim.Adam(self.judge.parameters(), lr=1e-3)

    def batch(self, number, whole):
        filled = self.fill(whole * (torch.rand(6) > 0.3))
        loss = F.l1_loss(filled, whole) - 0.1 * self.judge(filled).mean()
        self.by_fill.zero_grad()
        loss.backward()
        if (number + 1) % self.every == 0:
            self.by_fill.step()
        known = F.relu(1 - self.judge(whole)).mean() + F.relu(1 + self.judge(filled.detach())).mean()
        self.by_judge.zero_grad()
        known.backward()
        if (number + 1) % self.every == 0:
            self.by_judge.step()


torch.manual_seed(0)
restorer = Restorer(2)
for number in range(16):
    restorer.batch(number, torch.randn(8, 6))

# told at: self.by_fill.zero_grad()
