"""The generator's loss is added up behind the discriminator's update, and a mean of it is kept for the log."""

import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
discriminator = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
g_opt = torch.optim.Adam(generator.parameters())
d_opt = torch.optim.Adam(discriminator.parameters())

shown = 0.0
for _ in range(4):
    real, noise = torch.randn(5, 4), torch.randn(5, 3)
    fake = generator(noise)
    g_loss, d_loss = 0, 0
    d_loss += softplus(-discriminator(real)).mean() + softplus(discriminator(fake.detach())).mean()

    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()

    score = discriminator(fake)
    g_loss += softplus(-score).mean()
    g_loss += 0.1 * (fake - real).abs().mean()
    shown += g_loss.item()

    g_loss.backward()
    g_opt.step()
    g_opt.zero_grad()
