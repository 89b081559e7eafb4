import warnings

import torch
import torch.utils.checkpoint as cp
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
blocks = nn.ModuleList([nn.Linear(5, 8), nn.Linear(8, 8)])
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*blocks.parameters(), *head.parameters()], lr=0.01)
for _ in range(6):
    x = torch.randn(16, 5)
    h = x
    h = cp.checkpoint(lambda t: torch.tanh(blocks[0](t)), h, use_reentrant=True)
    loss = (head(torch.tanh(blocks[1](h))) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: h = cp.checkpoint(lambda t: torch.tanh(blocks[0](t)), h, use_reentrant=True)
