import torch
from torch import nn


class Stages:
    def bound(self, parameters, most):
        return nn.utils.clip_grad_norm_(parameters, most)


torch.manual_seed(0)
mixer = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))
mixer[0].bias.requires_grad_(False)
trained = filter(lambda p: p.requires_grad, mixer.parameters())
optimizer = torch.optim.SGD(trained, lr=0.05)
stages = Stages()
for _ in range(10):
    x = torch.randn(8, 5)
    loss = (mixer(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    bounded = trained
    stages.bound(bounded, 0.1)
    optimizer.step()

# told at: trained = filter(lambda p: p.requires_grad, mixer.parameters())
