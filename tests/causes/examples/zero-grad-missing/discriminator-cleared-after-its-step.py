import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

torch.manual_seed(0)
generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(discriminator.parameters())
for _ in range(12):
    fake = generator(torch.randn(8, 2))
    real_loss = bce(discriminator(torch.randn(8, 2) + 1), torch.ones(8, 1))
    d_loss = real_loss + bce(discriminator(fake.detach()), torch.zeros(8, 1))
    d_loss.backward()
    d_optimizer.step()
    d_optimizer.zero_grad()
    g_loss = bce(discriminator(fake), torch.ones(8, 1))
    g_loss.backward()
    g_optimizer.step()
    g_optimizer.zero_grad()

# told at: d_loss.backward()
