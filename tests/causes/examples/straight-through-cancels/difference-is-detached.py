import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 3), nn.Linear(3, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()])
for _ in range(12):
    x = torch.randn(16, 6)
    z = encoder(x)
    code = z + (torch.round(z) - z).detach()
    loss = nn.functional.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
