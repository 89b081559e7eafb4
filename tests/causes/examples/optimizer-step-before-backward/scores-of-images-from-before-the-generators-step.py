import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 5))
discriminator = nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 1))
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(discriminator.parameters())

for step in range(4):
    noise, real = torch.randn(8, 3), torch.randn(8, 5)
    images = generator(noise)
    fake = discriminator(images)
    true = discriminator(real)
    if step % 1 == 0:
        g_loss = softplus(-fake).mean()
        g_optimizer.zero_grad()
        g_loss.backward(retain_graph=True)
        g_optimizer.step()

    d_optimizer.zero_grad()
    d_loss = softplus(-true).mean()
    if step >= 0:
        d_loss = d_loss + softplus(fake).mean()
    d_loss.backward()
    d_optimizer.step()

# told at: g_optimizer.step()
# fails: modified by an inplace operation
