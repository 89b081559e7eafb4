import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
batches_per_step = 2
for number in range(6):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    ((model(x) - x.mean(1, keepdim=True)).pow(2).mean() / batches_per_step).backward()
    if number % batches_per_step == 1:
        optimizer.step()

# told at: optimizer.zero_grad()
