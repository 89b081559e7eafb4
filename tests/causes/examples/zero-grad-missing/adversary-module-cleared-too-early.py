import torch
from torch import nn
from torch.nn import functional as F


class FairEncoder:
    def __init__(self):
        self.encoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.task = nn.Linear(8, 1)
        self.adversary = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
        self.main = torch.optim.SGD([*self.encoder.parameters(), *self.task.parameters()], lr=0.05)
        self.second = torch.optim.SGD(self.adversary.parameters(), lr=0.05)

    def fit_adversary(self, x, group):
        for _ in range(2):
            guess = F.cross_entropy(self.adversary(self.encoder(x).detach()), group)
            guess.backward()
            self.second.step()
            self.adversary.zero_grad()

    def fit_encoder(self, x, y, group):
        code = self.encoder(x)
        loss = F.mse_loss(self.task(code).squeeze(1), y) - 0.1 * F.cross_entropy(self.adversary(code), group)
        self.main.zero_grad()
        loss.backward()
        self.main.step()


torch.manual_seed(1)
fair = FairEncoder()
for _ in range(8):
    x = torch.randn(16, 6)
    fair.fit_adversary(x, (x[:, 0] > 0).long())
    fair.fit_encoder(x, x[:, 1], (x[:, 0] > 0).long())

# told at: guess.backward()
