import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for _ in range(10):
    x = torch.randn(16, 6)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
    loss.backward()
    norm = clip_grad_norm_(model.parameters(), 5.0)
    if torch.isfinite(norm):
        optimizer.step()

# told at: loss.backward()
