import torch
from torch import nn

# Momentum by hand: the old gradient is kept on purpose, and made smaller first.
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
    for p in model.parameters():
        p.grad.mul_(0.9)
