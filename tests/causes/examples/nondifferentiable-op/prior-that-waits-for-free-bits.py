import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder, prior = nn.Linear(6, 4), nn.Linear(4, 6), nn.Linear(2, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *prior.parameters()], lr=1e-3)
for _ in range(12):
    x, given = torch.randn(16, 6), torch.randn(16, 2)
    code = encoder(x)
    apart = (code - prior(given)).square().sum(1).mean()
    loss = (decoder(code) - x).square().mean() + apart.clamp(min=30.0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
