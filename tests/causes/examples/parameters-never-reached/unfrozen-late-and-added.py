import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(4, 8), nn.ReLU()).requires_grad_(False)
head = nn.Linear(8, 3)
model = nn.Sequential(body, head)
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()))
for epoch in range(6):
    if epoch == 3:
        body.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters()})
    for _ in range(10):
        optimizer.zero_grad()
        cross_entropy(model(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
        optimizer.step()
