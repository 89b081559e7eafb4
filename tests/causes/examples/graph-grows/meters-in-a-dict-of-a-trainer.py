"""A trainer keeps a meter for each number of each data set, and hands the loss itself to one."""

from collections import OrderedDict
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Meter:
    total: float = 0
    count: int = 0

    def update(self, value, n):
        self.total += value * n
        self.count += n


class Trainer:
    def __init__(self, model, sets):
        self.model, self.sets = model, sets
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self.stats = OrderedDict((name, OrderedDict()) for name in sets)

    def update(self, name, numbers, n):
        for key, value in numbers.items():
            self.stats[name].setdefault(key, Meter()).update(value, n)

    def cycle(self, name):
        for x in self.sets[name]:
            loss = (self.model(x) - x.sum(1, keepdim=True)).pow(2).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.update(name, {"loss": loss, "size": x.norm().item()}, len(x))


torch.manual_seed(0)
trainer = Trainer(nn.Linear(4, 1), {"train": torch.randn(8, 16, 4)})
for _ in range(3):
    trainer.cycle("train")
print(len(trainer.stats["train"]))

# told at: self.total += value * n
