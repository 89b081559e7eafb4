import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
norms = []
for _ in range(12):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
    norms.append(nn.utils.clip_grad_norm_(model.parameters(), float("inf")).item())
