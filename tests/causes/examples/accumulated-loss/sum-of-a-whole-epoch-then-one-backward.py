import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    total_loss = 0
    for _ in range(4):
        total_loss += model(torch.randn(4, 3)).pow(2).mean()
    optimizer.zero_grad()
    total_loss.backward()
    optimizer.step()
