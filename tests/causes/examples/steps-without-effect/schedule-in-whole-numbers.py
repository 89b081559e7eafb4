import torch
from torch import nn

torch.manual_seed(0)
model = nn.GRU(3, 8, batch_first=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 100))
for _ in range(16):
    x = torch.randn(8, 5, 3)
    loss = (model(x)[0][:, -1].sum(1) - x.sum((1, 2))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()

# told at: schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step // 100))
