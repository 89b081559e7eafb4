import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
stem, act, head = nn.Linear(12, 32), nn.RReLU(0.1, 0.9), nn.Linear(32, 1)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.01)
for _ in range(3):
    x = torch.randn(16, 12)
    hidden = checkpoint(act, stem(x), use_reentrant=False)
    loss = (head(hidden) - x[:, :1]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: hidden = checkpoint(act, stem(x), use_reentrant=False)
