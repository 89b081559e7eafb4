import torch
from torch import nn


class Study:
    def __init__(self):
        self.optimizers = []

    def slope(self):
        self.slope, self.level = nn.Parameter(torch.zeros(1, 4)), nn.Parameter(torch.zeros(1))
        self.optimizers.append(torch.optim.SGD([self.slope, self.level], lr=0.1))
        for x in torch.randn(12, 16, 4):
            self.update((x @ self.slope.T + self.level - x.sum(1, keepdim=True)).pow(2).mean())

    def samples(self):
        judge, sampler = nn.Linear(4, 1), nn.Linear(2, 4)  # the judge is left as it is
        self.optimizers.append(torch.optim.Adam(sampler.parameters(), lr=1e-2))
        for noise in torch.randn(14, 16, 2):
            self.update((judge(sampler(noise)) - 1).pow(2).mean())

    def update(self, loss):
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in self.optimizers:
            optimizer.step()


torch.manual_seed(0)
study = Study()
study.slope()
study.samples()
