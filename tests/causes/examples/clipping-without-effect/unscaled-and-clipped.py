import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for enabled in (True, False):
    scaler = torch.amp.GradScaler("cpu", enabled=enabled)
    for _ in range(12):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        scaler.scale((model(x) - x.sum(1, keepdim=True)).pow(2).mean()).backward()
        if enabled:
            scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
