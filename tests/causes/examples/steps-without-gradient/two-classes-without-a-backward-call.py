import torch
from torch import nn


class Novelty:
    def __init__(self, size):
        self.guess, self.fixed = nn.Linear(size, 8), nn.Linear(size, 8)
        self.opt = torch.optim.Adam(self.guess.parameters(), lr=1e-2)

    def update(self, seen):
        self.opt.zero_grad()
        loss = (self.guess(seen) - self.fixed(seen).detach()).square().mean()
        self.opt.step()
        return loss.item()


class Inverse:
    def __init__(self, size):
        self.net = nn.Linear(2 * size, 3)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def update(self, seen, following, action):
        self.opt.zero_grad()
        loss = nn.functional.cross_entropy(self.net(torch.cat([seen, following], 1)), action)
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
novelty, inverse = Novelty(4), Inverse(4)
for _ in range(8):
    seen, following = torch.randn(16, 4), torch.randn(16, 4)
    novelty.update(seen)
    inverse.update(seen, following, torch.randint(0, 3, (16,)))
# told at: self.opt.step()
