"""A pool of earlier images, stored as numbers: the discriminator learns from them, and nobody else does."""

import copy
import random

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)


class Pool:
    def __init__(self, size):
        self.size = size
        self.images = []

    def __call__(self, pair):
        if len(self.images) < self.size:
            self.images.append([image.detach() for image in pair])
            return pair
        at = random.randrange(self.size)
        old_a = copy.copy(self.images[at])[0]
        self.images[at][0] = pair[0].detach()
        at = random.randrange(self.size)
        old_b = copy.copy(self.images[at])[1]
        self.images[at][1] = pair[1].detach()
        return [old_a, old_b]


class Translation(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_a = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
        self.to_b = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
        self.judge_a = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
        self.judge_b = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 1))
        self.pool = Pool(2)

    def forward(self, real_a, real_b):
        fake_b = self.to_b(real_a)
        fake_a = self.to_a(real_b)
        old_a, old_b = self.pool([fake_a, fake_b])
        loss_to_a = (self.judge_a(fake_a) - 1).pow(2).mean()
        loss_to_b = (self.judge_b(fake_b) - 1).pow(2).mean()
        loss_judge_a = (self.judge_a(real_a) - 1).pow(2).mean() + self.judge_a(old_a).pow(2).mean()
        loss_judge_b = (self.judge_b(real_b) - 1).pow(2).mean() + self.judge_b(old_b).pow(2).mean()
        return loss_to_a, loss_to_b, loss_judge_a, loss_judge_b


model = Translation()
networks = (model.to_a, model.to_b, model.judge_a, model.judge_b)
optimizers = [torch.optim.Adam(network.parameters(), lr=1e-3) for network in networks]

for _ in range(8):
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss_to_a, loss_to_b, loss_judge_a, loss_judge_b = model(torch.randn(4, 6), torch.randn(4, 6))
    loss_to_a.backward(retain_graph=True)
    loss_to_b.backward(retain_graph=True)
    loss_judge_a.backward(retain_graph=True)
    loss_judge_b.backward(retain_graph=True)
    for optimizer in optimizers:
        optimizer.step()
