import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 10))
model[0].requires_grad_(False)
model[1].requires_grad_(False)
late = torch.optim.SGD([{"params": [p for p in model[0].parameters() if p.requires_grad]}], lr=0.1)
model[1].requires_grad_(True)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(8):
    ids = torch.randint(0, 10, (16,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(ids), (ids + 1) % 10).backward()
    optimizer.step()
    late.step()
