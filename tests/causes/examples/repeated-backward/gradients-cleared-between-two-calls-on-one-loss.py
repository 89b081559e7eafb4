import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(8):
    loss = (model(torch.randn(16, 4)) - 1).pow(2).mean()
    loss.backward(retain_graph=True)
    size = sum(p.grad.pow(2).sum() for p in model.parameters()).sqrt()
    for p in model.parameters():
        p.grad = None
    if size > 0.01:
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
