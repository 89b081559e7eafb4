import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
for _ in range(4):
    loss = model(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss * 8).backward()
    scaler.step(optimizer)
    scaler.update()
print(loss.item() > 0)
