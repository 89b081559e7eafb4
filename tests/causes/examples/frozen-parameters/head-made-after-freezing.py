import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 100))
for p in model.parameters():
    p.requires_grad = False
model[2] = nn.Linear(8, 3)
loss = nn.functional.cross_entropy(model(torch.randn(5, 6)), torch.randint(3, (5,)))
loss.backward()
print(model[0].weight.grad is None, model[2].weight.grad is not None)
