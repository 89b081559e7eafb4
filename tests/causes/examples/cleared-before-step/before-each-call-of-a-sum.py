import torch
from torch import nn


class Worker:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def accumulate(self, x):
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.amax(1, keepdim=True)).square().mean() / 3
        loss.backward()
        return loss.item()

    def update(self):
        self.optimizer.step()


torch.manual_seed(0)
worker = Worker()
for _ in range(5):
    total = sum(worker.accumulate(x) for x in torch.randn(3, 8, 4))
    worker.update()
    print(f"{total:.4f}")

# told at: self.optimizer.zero_grad()
