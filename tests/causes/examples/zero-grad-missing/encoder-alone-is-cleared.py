import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for batch in range(24):
    x = torch.randn(16, 6)
    ((decoder(encoder(x)) - x).pow(2).mean() / 2).backward()
    if batch % 2:
        optimizer.step()
        encoder.zero_grad()

# told at: encoder.zero_grad()
