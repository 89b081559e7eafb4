"""Two objectives are computed and printed; an option says by its key which of them is trained."""

import torch
from torch import nn
from torch.nn import functional as F

OBJECTIVE = "plain"
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(16):
    x = torch.randn(32, 6)
    scores, losses = net(x), {}
    losses["plain"] = F.cross_entropy(scores, x[:, :3].argmax(1))
    losses["smooth"] = losses["plain"] + 0.1 * scores.square().mean()
    optimizer.zero_grad()
    losses[OBJECTIVE].backward()
    optimizer.step()
    print(losses["plain"].item(), losses["smooth"].item())
