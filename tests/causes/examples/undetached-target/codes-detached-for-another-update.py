import torch
from torch import nn


class Series:
    def __init__(self):
        self.encoder, self.decoder = nn.Linear(4, 3), nn.Linear(3, 4)
        self.dynamics = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 3))
        self.model_step = torch.optim.Adam(self.dynamics.parameters(), lr=0.01)
        self.code_step = torch.optim.Adam([*self.encoder.parameters(), *self.decoder.parameters()], lr=0.01)

    def encode(self, seen):
        self.seen = seen
        self.codes = torch.tanh(self.encoder(seen))

    def fit_dynamics(self):
        self.model_step.zero_grad()
        guess = self.dynamics(self.codes.detach())
        self.model_loss = (guess[:, :-1] - self.codes.detach()[:, 1:]).pow(2).mean()
        self.model_loss.backward()
        self.model_step.step()

    def fit_codes(self):
        self.code_step.zero_grad()
        loss = (self.decoder(self.codes) - self.seen).pow(2).mean()
        loss.backward()
        self.code_step.step()


torch.manual_seed(0)
series = Series()
for _ in range(3):
    series.encode(torch.randn(8, 5, 4))
    series.fit_dynamics()
    series.fit_codes()
