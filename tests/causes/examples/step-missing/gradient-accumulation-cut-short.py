import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.zero_grad()
for i in range(1, 13):
    (model(torch.randn(4, 3)).pow(2).mean() / 16).backward()
    if i % 16 == 0:
        optimizer.step()
        optimizer.zero_grad()
