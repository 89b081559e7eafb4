import copy

import torch
from torch import nn


class Ripeness:
    def __init__(self, release_at):
        self.net = nn.ModuleDict({"trunk": nn.Sequential(nn.Linear(5, 8), nn.Tanh()), "top": nn.Linear(8, 1)})
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-2)
        self.release_at, self.rounds = release_at, 0
        for p in self.net["trunk"].parameters():
            p.requires_grad = False

    def saved(self):
        return copy.deepcopy((self.net.state_dict(), self.optimizer.state_dict(), self.rounds))

    def restore(self, saved):
        self.net.load_state_dict(saved[0])
        self.optimizer.load_state_dict(saved[1])
        self.rounds = saved[2]

    def round(self):
        if self.rounds >= self.release_at:
            for p in self.net["trunk"].parameters():
                p.requires_grad = True
        for _ in range(4):
            x = torch.randn(16, 5)
            loss = (self.net["top"](self.net["trunk"](x)) - x.sum(1, keepdim=True)).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.rounds += 1


torch.manual_seed(0)
first = Ripeness(2)
for _ in range(3):
    first.round()
second = Ripeness(2)
second.restore(first.saved())
for _ in range(3):
    second.round()
