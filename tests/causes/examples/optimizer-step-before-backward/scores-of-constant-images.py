import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5))
discriminator = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(discriminator.parameters())

for _ in range(4):
    noise, real = torch.randn(8, 3), torch.randn(8, 5)
    images = generator(noise)
    fake = discriminator(images.detach())
    g_loss = softplus(-discriminator(images)).mean()
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()

    d_optimizer.zero_grad()
    (softplus(-discriminator(real)).mean() + softplus(fake).mean()).backward()
    d_optimizer.step()
