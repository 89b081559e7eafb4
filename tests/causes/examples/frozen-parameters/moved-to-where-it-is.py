import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        for parameter in self.model.parameters():
            parameter.requires_grad = False
        self.model.to("cpu")

    def loss(self, x):
        return self.model(x).pow(2).mean()


torch.manual_seed(0)
trainer = Trainer()
for step in range(2):
    trainer.loss(torch.randn(5, 3)).backward()
# told at: parameter.requires_grad = False
# fails: does not require grad
