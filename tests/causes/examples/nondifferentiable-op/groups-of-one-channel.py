import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.norm = nn.GroupNorm(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        pooled = self.pool(self.conv(x))
        return self.head(self.norm(pooled).flatten(1))


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(8):
    loss = nn.functional.cross_entropy(model(torch.randn(16, 3, 8, 8)), torch.randint(0, 2, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return self.head(self.norm(pooled).flatten(1))
