"""Bounds that are put on a tensor leave its numbers as they are: nobody updates it."""

import torch
from torch import nn


class Controller:
    def __init__(self):
        self.mean = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
        self.spread = nn.Parameter(torch.full((2,), -0.5))
        self.optimizer = torch.optim.Adam(self.mean.parameters(), lr=1e-2)

    def learn(self, state, action, gain):
        chosen = torch.distributions.Normal(self.mean(state), self.spread.exp())
        loss = -(chosen.log_prob(action).sum(-1) * gain).mean()
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_([*self.mean.parameters(), self.spread], 0.5)
        self.optimizer.step()
        with torch.no_grad():
            self.spread.clamp_(-3.0, 0.0)

    def restore(self, file):
        kept = torch.load(file)
        self.mean.load_state_dict(kept["mean"])
        self.spread.data.copy_(kept["spread"])


torch.manual_seed(0)
controller = Controller()
for _ in range(10):
    controller.learn(torch.randn(16, 4), torch.randn(16, 2), torch.randn(16))
# told at: self.optimizer = torch.optim.Adam(self.mean.parameters(), lr=1e-2)
