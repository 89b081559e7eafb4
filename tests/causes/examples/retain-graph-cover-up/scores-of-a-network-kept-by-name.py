"""The critic learns from scores of a layout whose decoder has been stepped; the networks stand in a dict."""

import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.models = {
            "decoder": nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 8)),
            "critic": nn.Sequential(nn.Linear(8, 12), nn.LeakyReLU(0.2), nn.Linear(12, 1)),
        }
        self.optimizer = torch.optim.Adam(self.models["decoder"].parameters(), lr=1e-3)
        self.critic_optimizer = torch.optim.Adam(self.models["critic"].parameters(), lr=1e-3)
        self.score = nn.BCEWithLogitsLoss()

    def run(self, features):
        return {"layout": self.models["decoder"](features)}

    def step(self, features, layout):
        outputs = self.run(features)
        fake = self.models["critic"](outputs["layout"])
        real = self.models["critic"](layout)
        fooled = self.score(fake, torch.ones_like(fake)) + (outputs["layout"] - layout).square().mean()
        told_apart = self.score(fake, torch.zeros_like(fake)) + self.score(real, torch.ones_like(real))
        self.optimizer.zero_grad()
        fooled.backward(retain_graph=True)
        self.optimizer.step()
        self.critic_optimizer.zero_grad()
        told_apart.backward()
        self.critic_optimizer.step()


torch.manual_seed(0)
trainer = Trainer()
for _ in range(3):
    trainer.step(torch.randn(4, 6), torch.rand(4, 8))

# told at: told_apart = self.score(fake, torch.zeros_like(fake)) + self.score(real, torch.ones_like(real))
# fails: modified by an inplace operation
