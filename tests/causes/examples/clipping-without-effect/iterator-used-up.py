import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
weights = model.parameters()
optimizer = torch.optim.SGD(weights, lr=0.1)
for _ in range(10):
    x = torch.randn(8, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(weights, 0.1)
    optimizer.step()

# told at: weights = model.parameters()
