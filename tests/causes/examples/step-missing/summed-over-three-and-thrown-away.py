import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(24):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean() / 3
    loss.backward()
    if number % 3 == 2:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.zero_grad()

# told at: loss.backward()
