"""The encoder learns from both losses of a round, and the first round has no frame before it."""
import torch
from torch import nn

torch.manual_seed(0)
encoder, score, link = nn.Linear(4, 6), nn.Linear(6, 1), nn.Linear(6, 6)
optimizer = torch.optim.Adam([*encoder.parameters(), *score.parameters()])
link_optimizer = torch.optim.Adam(link.parameters())
before = None
for _ in range(16):
    frame = torch.randn(8, 4)
    optimizer.zero_grad()
    link_optimizer.zero_grad()
    if before is not None:
        (link(encoder(before)) - encoder(frame)).square().mean().backward()
        link_optimizer.step()
    (score(encoder(frame)) - frame.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    before = frame
