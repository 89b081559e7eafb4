import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x, y = torch.randn(8, 1, 8, 8), torch.randint(0, 2, (8,))
    changed = nn.Conv2d(1, 1, 3, padding=1)(x)
    loss = nn.functional.cross_entropy(model(changed), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
