import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(40):
    volts = 1000 * model(torch.randn(16, 4))
    energy = volts.pow(14).mean()
    scaler.scale(energy).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

# told at: energy = volts.pow(14).mean()
