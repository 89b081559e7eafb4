import torch
from torch import nn

torch.manual_seed(0)
value, gate = nn.Linear(3, 6)(torch.randn(2, 3)).chunk(2, dim=-1)
gate = gate.sigmoid()
(value * gate).sum().backward()
