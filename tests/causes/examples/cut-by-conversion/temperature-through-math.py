import math

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
encoder, log_scale = nn.Linear(10, 6), nn.Parameter(torch.tensor(1.0))
optimizer = torch.optim.AdamW([*encoder.parameters(), log_scale], lr=1e-2)
for _ in range(8):
    x = torch.randn(16, 10)
    one, other = (F.normalize(encoder(x + 0.1 * torch.randn(16, 10)), dim=1) for _ in range(2))
    logits = math.exp(log_scale) * one @ other.T
    loss = F.cross_entropy(logits, torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: logits = math.exp(log_scale) * one @ other.T
