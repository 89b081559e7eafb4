import torch
from torch import nn

torch.manual_seed(0)
old, now = nn.Linear(5, 4), nn.Linear(5, 4)
optimizer = torch.optim.Adam(now.parameters(), lr=1e-2)
for _ in range(8):
    x, gain, used = torch.randn(10, 5), torch.randn(10, 4), (torch.rand(10) > 0.2).float()
    chances = now(x).log_softmax(1)
    each = -(chances * gain).sum(1)
    with torch.no_grad():
        before = old(x).log_softmax(1)
        drift = (before.exp() * (before - chances)).sum(1)
    loss = ((each + 0.2 * drift) * used).sum() / used.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: with torch.no_grad():
