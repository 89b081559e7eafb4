import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.filterwarnings("ignore")
torch.manual_seed(0)
front, block, head = nn.Linear(3, 6).requires_grad_(False), nn.Linear(6, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*block.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    x = torch.randn(16, 3)
    h = front(x)
    if step >= 20:  # the block joins the head
        h.requires_grad_()
    loss = (head(torch.tanh(checkpoint(block, h, use_reentrant=True))) - x.prod(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
