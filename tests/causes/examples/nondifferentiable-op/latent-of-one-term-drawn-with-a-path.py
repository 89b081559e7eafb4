"""An autoencoder that draws its latent with `rsample()`: both terms train the encoder."""

import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    mean, spread = encoder(x).chunk(2, dim=-1)
    ways = Normal(mean, spread.exp())
    latent = ways.rsample()
    rebuilt = (decoder(latent) - x).square().sum(-1).mean()
    loss = rebuilt + 0.1 * kl_divergence(ways, Normal(0.0, 1.0)).sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
