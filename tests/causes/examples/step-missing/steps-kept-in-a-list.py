"""The body is left as it is in this run: its step is put into the list of steps by an option alone."""

import torch
from torch import nn
from torch.nn import functional as F

FINETUNE = False
torch.manual_seed(0)
body, head = nn.Linear(6, 8), nn.Linear(8, 2)
body_opt, head_opt = (torch.optim.SGD(part.parameters(), lr=0.1) for part in (body, head))
steps = [head_opt.step] + ([body_opt.step] if FINETUNE else [])
for _ in range(12):
    x = torch.randn(16, 6)
    for optimizer in (body_opt, head_opt):
        optimizer.zero_grad()
    F.cross_entropy(head(body(x).relu()), (x[:, 0] > 0).long()).backward()
    for step in steps:
        step()
