import torch
from torch import nn

# Each part is cleared in its own way, and the memory keeps a damped gradient on purpose.
torch.manual_seed(0)
encoder, decoder, memory = nn.Linear(6, 2), nn.Linear(2, 6), nn.Linear(6, 6)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters(), *memory.parameters()], lr=0.01)
for _ in range(12):
    x = torch.randn(16, 6)
    encoder.zero_grad()
    for p in decoder.parameters():
        if p.grad is not None:
            p.grad.zero_()
    for p in memory.parameters():
        if p.grad is not None:
            p.grad *= 0.5
    (memory(decoder(encoder(x))) - x).pow(2).mean().backward()
    optimizer.step()
