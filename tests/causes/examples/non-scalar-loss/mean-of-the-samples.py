import torch
from torch import nn

torch.manual_seed(0)
model, base = nn.Linear(5, 3), nn.CrossEntropyLoss(reduction="none")
loss = base(model(torch.randn(4, 5)), torch.randint(3, (4,))) * torch.rand(4)
loss.mean().backward()
print(model.weight.grad.shape)
