import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(1, 9):
    loss = model(torch.randn(4, 3)).pow(2).mean() / 4
    loss.backward()
    if i % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
