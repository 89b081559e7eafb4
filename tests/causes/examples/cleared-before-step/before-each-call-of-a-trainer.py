import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def forward_backward(self, x, total):
        self.optimizer.zero_grad()
        loss = (self.model(x) - x.sum(1, keepdim=True)).square().sum() / total
        loss.backward()
        return loss.item()

    def optim_step(self):
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(6):
    batches = torch.randn(4, 8, 6).unbind()
    losses = [trainer.forward_backward(x, 32) for x in batches]
    trainer.optim_step()

# told at: self.optimizer.zero_grad()
