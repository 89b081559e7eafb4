"""The critic takes two steps on one generated image; its gradient penalty mixes the image in with the graph."""

import torch
from torch import nn


class Translator:
    def __init__(self):
        self.painter = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 6))
        self.critic = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
        self.painter_optim = torch.optim.Adam(self.painter.parameters(), lr=1e-3)
        self.critic_optim = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def paint(self, sketch):
        self.sketch = sketch
        self.painting = self.painter(sketch)

    def penalty(self, real, made):
        share = torch.rand(len(real), 1)
        between = share * real + (1 - share) * made
        between.requires_grad_(True)
        slope = torch.autograd.grad(self.critic(between).sum(), between, create_graph=True)[0]
        return (slope.norm(dim=1) - 1).square().mean()

    def judge(self, picture):
        made = torch.cat((self.sketch, self.painting), 1)
        real = torch.cat((self.sketch, picture), 1)
        told_apart = self.critic(made.detach()).mean() - self.critic(real).mean()
        (told_apart + 10 * self.penalty(real, made)).backward()

    def step(self, sketch, picture):
        self.paint(sketch)
        for _ in range(2):
            self.critic_optim.zero_grad()
            self.judge(picture)
            self.critic_optim.step()
        self.painter_optim.zero_grad()
        near = (self.painting - picture).abs().mean()
        (near - self.critic(torch.cat((self.sketch, self.painting), 1)).mean()).backward()
        self.painter_optim.step()


torch.manual_seed(0)
translator = Translator()
for _ in range(3):
    translator.step(torch.randn(4, 6), torch.randn(4, 6))

# told at: made = torch.cat((self.sketch, self.painting), 1)
# fails: backward through the graph a second time
