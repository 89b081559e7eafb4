import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net
        self.trained = (p for p in net.parameters() if p.requires_grad)
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def update(self, x):
        self.optimizer.zero_grad()
        self.net(x).pow(2).mean().backward()
        nn.utils.clip_grad_norm_(self.trained, 0.01)
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(nn.Linear(4, 1))
for _ in range(10):
    trainer.update(torch.randn(8, 4))

# told at: self.trained = (p for p in net.parameters() if p.requires_grad)
