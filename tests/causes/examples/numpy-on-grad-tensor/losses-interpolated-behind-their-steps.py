import numpy as np
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.losses = []

    def learn(self, x, y):
        loss = (self.net(x) - y).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss)

    def curve(self, points):
        return np.interp(points, np.arange(len(self.losses)), self.losses)


torch.manual_seed(0)
trainer = Trainer()
for _ in range(4):
    trainer.learn(torch.randn(8, 3), torch.randn(8, 1))
print(trainer.curve(np.linspace(0, 3, 7)))
# told at: return np.interp(points, np.arange(len(self.losses)), self.losses)
# fails: Can't call numpy() on Tensor that requires grad
