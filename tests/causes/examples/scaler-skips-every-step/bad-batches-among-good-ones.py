import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
for number in range(80):
    x = torch.randn(16, 4)
    if number % 16:
        x[0] = float("inf")  # a broken recording: the scaler leaves the step out
    optimizer.zero_grad()
    scaler.scale(model(x).pow(2).mean()).backward()
    scaler.step(optimizer)
    scaler.update()
