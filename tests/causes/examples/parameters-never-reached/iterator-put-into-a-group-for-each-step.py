import torch
from torch import nn

torch.manual_seed(0)
stem, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
for step in range(12):
    stem.zero_grad()
    head.zero_grad()
    x = torch.randn(8, 4)
    loss = (head(torch.tanh(stem(x))) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.param_groups[0]["params"] = (stem if step % 2 else head).parameters()
    optimizer.step()
