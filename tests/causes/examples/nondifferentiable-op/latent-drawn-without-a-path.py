"""An autoencoder that draws its latent with `sample()`: the decoder learns, the encoder never does, nothing is raised."""

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    mean, spread = encoder(x).chunk(2, dim=-1)
    latent = Normal(mean, spread.exp()).sample()
    loss = (decoder(latent) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: latent = Normal(mean, spread.exp()).sample()
