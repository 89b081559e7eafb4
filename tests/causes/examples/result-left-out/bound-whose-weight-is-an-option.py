"""The bound is printed in any case; by an option its second term is a part of the loss, and not in this run."""

import torch
from torch import nn
from torch.nn import functional as F


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 4), nn.Linear(2, 8)

    def terms(self, x):
        mean, spread = self.encoder(x).chunk(2, 1)
        drawn = mean + torch.randn_like(mean) * (spread / 2).exp()
        return F.mse_loss(self.decoder(drawn), x), -0.5 * (1 + spread - mean**2 - spread.exp()).mean()


class Run:
    def __init__(self, weight):
        self.coder, self.weight = Coder(), weight
        self.optimizer = torch.optim.Adam(self.coder.parameters(), lr=1e-2)

    def step(self, x):
        error, divergence = self.coder.terms(x)
        self.bound = error + divergence
        loss = error + self.weight * divergence if self.weight else error
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return self.bound.item(), error.item()


torch.manual_seed(0)
run = Run(0.0)
for _ in range(12):
    print(run.step(torch.randn(16, 8)))
