"""A recommender that draws its latent with `torch.normal()`; the weight of the divergence grows from step to step."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(8, 6), nn.Linear(3, 8)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
for step in range(12):
    bought = (torch.rand(16, 8) < 0.3).float()
    mean, log_variance = encoder(bought).chunk(2, dim=-1)
    taste = torch.normal(mean, (log_variance / 2).exp())
    likelihood = (decoder(taste).log_softmax(-1) * bought).sum(-1).mean()
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(-1)
    loss = (min(1.0, step / 10) * divergence).mean() - likelihood
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: taste = torch.normal(mean, (log_variance / 2).exp())
