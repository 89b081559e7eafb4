import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Linear(16, 16), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.8)
scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
for _ in range(40):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
print("trained")

# told at: scaler.scale(loss).backward()
