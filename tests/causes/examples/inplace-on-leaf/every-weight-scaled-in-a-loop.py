import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
for weight in model.parameters():
    weight.mul_(0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(6, 4)).pow(2).mean().backward()
    optimizer.step()
# told at: weight.mul_(0.5)
# fails: a leaf Variable that requires grad is being used in an in-place operation
