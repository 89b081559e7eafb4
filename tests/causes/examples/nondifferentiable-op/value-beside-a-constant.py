import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
gate, value = nn.Linear(8, 1), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*gate.parameters(), *value.parameters()], lr=1e-2)
for step in range(12):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    size = gate(x).abs()
    share = size / (size.sum(-1, keepdim=True) + 1.0)  # of a single one, from 0 to 1
    loss = F.cross_entropy(share * value(x), y) + 0.01 * size.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
