import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 3), nn.Linear(3, 6)
frozen = nn.Parameter(torch.ones(3))
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), frozen])
rounded = []
for _ in range(8):
    x = torch.randn(16, 6)
    z = encoder(x) * frozen.detach()
    code = z + (torch.round(z) - z).detach()
    rounded.append((z.detach() + (torch.round(z) - z).detach()).mean().item())
    loss = nn.functional.mse_loss(decoder(code), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(len(rounded))
