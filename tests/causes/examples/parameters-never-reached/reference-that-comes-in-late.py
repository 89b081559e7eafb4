import torch
from torch import nn

torch.manual_seed(0)
net, reference, head = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 2)
net.requires_grad_(False)
net.requires_grad_(True)
optimizer = torch.optim.Adam([p for m in (net, head) for p in m.parameters() if p.requires_grad], lr=1e-2)
for step in range(36):
    x, y = torch.randn(16, 4), torch.randint(0, 2, (16,))
    h = net(x)
    loss = nn.functional.cross_entropy(head(h), y)
    if step >= 12:
        loss = loss + 0.1 * reference(h).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
