import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for _ in range(40):
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    real = torch.ones(8, 1)
    real[-1] = 0  # the last row of a batch is padding
    length = ((model(x) - y) * real).pow(2).sum(1).sqrt()
    optimizer.zero_grad()
    scaler.scale(length.mean()).backward()
    scaler.step(optimizer)
    scaler.update()

# told at: length = ((model(x) - y) * real).pow(2).sum(1).sqrt()
