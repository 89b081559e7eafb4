import torch
from torch import nn

model = nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    distance = model(torch.randn(5, 6)).square().squeeze(1)
    optimizer.zero_grad()
    distance.mean().backward()
    optimizer.step()
    print(step, *distance.tolist())
