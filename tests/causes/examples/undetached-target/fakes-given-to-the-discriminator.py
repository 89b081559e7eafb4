import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class GAN:
    def __init__(self):
        self.g = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
        self.d = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        self.opt_g = torch.optim.Adam(self.g.parameters())
        self.opt_d = torch.optim.Adam(self.d.parameters())

    def step(self, real):
        fake = self.g(torch.randn(len(real), 2))
        d_loss = F.softplus(-self.d(real)).mean() + F.softplus(self.d(fake)).mean()
        self.opt_d.zero_grad()
        d_loss.backward()
        self.opt_d.step()
        g_loss = F.softplus(-self.d(fake)).mean()
        self.opt_g.zero_grad()
        g_loss.backward()
        self.opt_g.step()


GAN().step(torch.randn(5, 3))

# told at: d_loss = F.softplus(-self.d(real)).mean() + F.softplus(self.d(fake)).mean()
# fails: backward through the graph a second time
