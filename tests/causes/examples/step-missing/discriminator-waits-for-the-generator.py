import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce

# The generator learns alone at first; what its loss leaves in the discriminator is cleared each time.
torch.manual_seed(0)
generator, discriminator = nn.Linear(2, 2), nn.Linear(2, 1)
g_optimizer = torch.optim.Adam(generator.parameters())
d_optimizer = torch.optim.Adam(discriminator.parameters())
for iteration in range(12):
    g_optimizer.zero_grad()
    d_optimizer.zero_grad()
    bce(discriminator(generator(torch.randn(8, 2))), torch.ones(8, 1)).backward()
    g_optimizer.step()
    if iteration >= 20:
        d_optimizer.zero_grad()
        bce(discriminator(torch.randn(8, 2)), torch.ones(8, 1)).backward()
        d_optimizer.step()
