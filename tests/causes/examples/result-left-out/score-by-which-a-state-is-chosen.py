"""The state with the best score is kept; the score counts how smooth the weights are, which is not trained."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
best, state = float("inf"), {}
for _ in range(12):
    x = torch.randn(32, 6)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    score = loss + 0.1 * net[0].weight.diff(dim=0).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if score.item() < best:
        best, state = score.item(), {k: v.clone() for k, v in net.state_dict().items()}
