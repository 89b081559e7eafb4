import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
        self.optimizer = torch.optim.Adam(self.net.parameters())
        self.memory = torch.zeros(4, 1)

    def update(self, loss):
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def remember(self, out):
        self.memory = torch.tanh(out)

    def fit(self):
        for _ in range(4):
            features = torch.randn(4, 8)
            out = self.net(features) + 0.5 * self.memory
            self.update((out - features.mean(dim=1, keepdim=True)).square().mean())
            self.remember(out)


torch.manual_seed(0)
Trainer().fit()

# told at: self.memory = torch.tanh(out)
# fails: Trying to backward through the graph a second time
