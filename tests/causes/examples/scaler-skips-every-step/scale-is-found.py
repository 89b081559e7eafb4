import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-30)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, growth_interval=5)
for _ in range(140):
    loss = 1e20 * model(torch.randn(16, 4)).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
