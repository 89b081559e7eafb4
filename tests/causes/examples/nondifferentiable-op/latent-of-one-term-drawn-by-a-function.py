"""An autoencoder that draws its latent with `torch.normal()`: the divergence alone trains the encoder."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 4), nn.Linear(2, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    mean, spread = encoder(x).chunk(2, dim=-1)
    latent = torch.normal(mean, spread.exp())
    rebuilt = (decoder(latent) - x).square().sum(-1).mean()
    far = (mean.square() + (2 * spread).exp() - 1 - 2 * spread).sum(-1).mean() / 2
    loss = rebuilt + 0.1 * far
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: latent = torch.normal(mean, spread.exp())
