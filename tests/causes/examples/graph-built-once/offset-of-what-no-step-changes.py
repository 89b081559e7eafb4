import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
start = torch.randn(1, 8, requires_grad=True)
anchor = start + 0.5
encoder, head = nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
for step in range(6):
    x = torch.randn(16, 4)
    loss = mse_loss(head(torch.tanh(encoder(x)) + anchor), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
