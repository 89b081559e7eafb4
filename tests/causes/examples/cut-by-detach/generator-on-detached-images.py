"""A generator whose loss is computed on detached images: its gradients go to the discriminator, which clears them."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
discriminator = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 1))
generator_steps = torch.optim.Adam(generator.parameters(), lr=1e-3)
discriminator_steps = torch.optim.Adam(discriminator.parameters(), lr=1e-3)
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
for _ in range(12):
    real = torch.randn(32, 2) + 2
    fake = generator(torch.randn(32, 4)).detach()
    discriminator_steps.zero_grad()
    told = F.binary_cross_entropy_with_logits(discriminator(real), ones)
    (told + F.binary_cross_entropy_with_logits(discriminator(fake), zeros)).backward()
    discriminator_steps.step()
    generator_steps.zero_grad()
    F.binary_cross_entropy_with_logits(discriminator(fake), ones).backward()
    generator_steps.step()

# told at: fake = generator(torch.randn(32, 4)).detach()
