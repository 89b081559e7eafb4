import torch
from torch import nn

torch.manual_seed(0)
encoder, decoder = nn.Linear(3, 2), nn.Linear(2, 3)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for _ in range(8):
    x = torch.randn(16, 3)
    # The code of a batch is refined from where the encoder begins, and the encoder learns to begin there.
    code = nn.Parameter(encoder(x))
    inner = torch.optim.SGD([code], lr=0.1)
    for _ in range(3):
        inner.zero_grad()
        (decoder(code) - x).pow(2).mean().backward()
        inner.step()
    optimizer.zero_grad()
    loss = (encoder(x) - code.detach()).pow(2).mean() + (decoder(code.detach()) - x).pow(2).mean()
    loss.backward()
    optimizer.step()
