import torch
from torch import nn


class Fit:
    def __init__(self):
        self.net = nn.Linear(4, 1)
        self.adam = torch.optim.Adam(self.net.parameters())

    def go(self, clear_first):
        for _ in range(12):
            loss = (self.net(torch.randn(5, 4)) - 1).pow(2).mean()
            if clear_first:
                self.net.zero_grad()
            loss.backward()
            if not clear_first:
                self.net.zero_grad(set_to_none=True)
            self.adam.step()


torch.manual_seed(0)
first, second = Fit(), Fit()
first.go(True)
second.go(False)

# told at: self.net.zero_grad(set_to_none=True)
