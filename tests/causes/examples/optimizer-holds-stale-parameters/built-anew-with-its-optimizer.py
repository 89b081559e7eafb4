import torch
from torch import nn


class Estimator:
    def __init__(self, rate):
        self.net = self.build()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=rate, momentum=0.5)
        self.rate = rate

    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.ELU(), nn.Linear(8, 1))

    def fit(self, x, y, again):
        if again:
            self.net = self.build()
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=self.rate, momentum=0.5)
        for _ in range(8):
            loss = (self.net(x) - y).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()


torch.manual_seed(0)
estimator = Estimator(0.05)
for number in range(3):
    x = torch.randn(32, 4)
    print(f"{estimator.fit(x, x.sum(1, keepdim=True), number > 0):.3f}")
