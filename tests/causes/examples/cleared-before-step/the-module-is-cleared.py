import torch
from torch import nn


class Fit:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.adam = torch.optim.Adam(self.net.parameters())

    def back(self, loss):
        loss.backward()
        self.net.zero_grad()

    def go(self, times):
        for _ in range(times):
            self.back((self.net(torch.randn(5, 4)) - 1).pow(2).mean())
            self.adam.step()


torch.manual_seed(0)
Fit().go(10)

# told at: self.net.zero_grad()
