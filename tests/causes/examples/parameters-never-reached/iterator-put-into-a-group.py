import torch
from torch import nn

torch.manual_seed(0)
stem, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)


def unfreeze(parts):
    for group in optimizer.param_groups:
        group["params"] = (p for part in parts for p in part.parameters() if p.requires_grad)


for step in range(12):
    if step == 4:
        unfreeze([stem, head])
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    loss = (head(torch.tanh(stem(x))) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()

# told at: group["params"] = (p for part in parts for p in part.parameters() if p.requires_grad)
