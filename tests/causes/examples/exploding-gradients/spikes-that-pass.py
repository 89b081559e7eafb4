import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.01, total_iters=20)
for step in range(60):
    x = torch.randn(16, 4)
    if step % 20 == 19:
        x = x * 1e6  # an outlier
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warm_up.step()
