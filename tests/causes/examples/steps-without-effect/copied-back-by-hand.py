import torch
from torch import nn


class Trainer:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        self.kept = [p.detach().clone() for p in net.parameters()]

    def update(self, x):
        loss = (self.net(x) - x.mean(1, keepdim=True)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    @torch.no_grad()
    def restore(self):
        for p, old in zip(self.net.parameters(), self.kept, strict=True):
            p.copy_(old)


torch.manual_seed(0)
trainer = Trainer(nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.Linear(8, 1)))
for _ in range(12):
    trainer.update(torch.randn(16, 5))
    trainer.restore()

# told at: p.copy_(old)
