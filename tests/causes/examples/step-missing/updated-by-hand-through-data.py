import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.randn(12, 8, 4):
    optimizer.zero_grad()
    mse_loss(model(x), x[:, :1]).backward()
    for p in model.parameters():
        p.data -= 0.05 * p.grad.data
