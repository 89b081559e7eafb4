import torch
from torch import nn


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters())
        self.epoch_loss = torch.zeros(())

    def training_step(self, x):
        self.epoch_loss = self.epoch_loss + self.model(x).pow(2).mean()

    def end_of_epoch(self):
        self.optimizer.zero_grad()
        self.epoch_loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
trainer = Trainer(nn.Linear(3, 1))
for epoch in range(2):
    for _ in range(3):
        trainer.training_step(torch.randn(4, 3))
    trainer.end_of_epoch()

# told at: self.epoch_loss = self.epoch_loss + self.model(x).pow(2).mean()
# fails: backward through the graph a second time
