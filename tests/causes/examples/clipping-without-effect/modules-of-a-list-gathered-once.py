import torch
from torch import nn


class Ensemble:
    def __init__(self):
        self.models = [nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(3)]
        self.weights = nn.ModuleList(self.models).parameters()
        self.optimizer = torch.optim.SGD(self.weights, lr=0.1)

    def update(self, x):
        loss = sum((m(x) - x.sum(1, keepdim=True)).pow(2).mean() for m in self.models)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.weights, 0.1)
        self.optimizer.step()


torch.manual_seed(0)
ensemble = Ensemble()
for _ in range(10):
    ensemble.update(torch.randn(8, 4))

# told at: self.weights = nn.ModuleList(self.models).parameters()
