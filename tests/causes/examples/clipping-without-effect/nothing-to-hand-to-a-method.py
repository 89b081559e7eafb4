import torch
from torch import nn


class Stages:
    def bound(self, parameters, most):
        return nn.utils.clip_grad_norm_(parameters, most)


torch.manual_seed(0)
scaler, mixer = nn.Linear(5, 5), nn.Linear(5, 1)
scaler.requires_grad_(False)
extra = filter(lambda p: p.requires_grad, scaler.parameters())
optimizer = torch.optim.SGD(mixer.parameters(), lr=0.05)
stages = Stages()
for _ in range(10):
    x = torch.randn(8, 5)
    optimizer.zero_grad()
    (mixer(scaler(x)) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    bounded = extra
    stages.bound(bounded, 0.1)
    stages.bound(mixer.parameters(), 0.1)
    optimizer.step()
