import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
sensitivity = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
for x in torch.randn(12, 8, 4):
    optimizer.zero_grad()
    cross_entropy(model(x), x[:, :3].argmax(1)).backward()
    for name, p in model.named_parameters():
        sensitivity[name] += p.grad**2
