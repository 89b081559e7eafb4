import random
from collections import namedtuple

import torch
from torch import nn

torch.manual_seed(0)
random.seed(0)
Step = namedtuple("Step", ("seen", "worth", "paid"))


class Ring:
    def __init__(self, size):
        self.size, self.at, self.steps = size, 0, []

    def put(self, *parts):
        if len(self.steps) < self.size:
            self.steps.append(None)
        self.steps[self.at] = Step(*parts)
        self.at = (self.at + 1) % self.size

    def some(self, count):
        return random.sample(self.steps, count)


valuer = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(valuer.parameters())
ring = Ring(50)


def learn():
    drawn = ring.some(4)
    batch = Step(*zip(*drawn))
    worth = torch.stack(batch.worth)
    loss = (worth - torch.tensor(batch.paid)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for step in range(30):
    seen = torch.randn(4)
    worth = valuer(seen).max()
    ring.put(seen, worth, float(seen.sum()))
    if step > 6:
        learn()

# told at: ring.put(seen, worth, float(seen.sum()))
# fails: a second time
