import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
rows = torch.randn(24, 3)
rows[17] = 4000.0
for batch in rows.split(8):
    mean, log_scale = net(batch).abs().unbind(1)
    error = (batch.sum(1) - mean) * torch.exp(log_scale)
    loss = (error.abs() - log_scale).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: error = (batch.sum(1) - mean) * torch.exp(log_scale)
