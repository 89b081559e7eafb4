import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(6, 2), nn.Linear(2, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)
for _ in range(2):
    x = torch.randn(8, 6)
    code = torch.tanh(encoder(x))
    losses = {"recon": (decoder(code) - x).pow(2).mean(), "prior": code.pow(2).mean()}
    optimizer.zero_grad()
    sum(losses.values()).backward()
    optimizer.step()
