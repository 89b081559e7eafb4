import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        loss.backward()
        self.opt.zero_grad()
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(10):
    x = torch.randn(8, 3)
    trainer.fit(x, x.sum(1, keepdim=True))

# told at: self.opt.zero_grad()
