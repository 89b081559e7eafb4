import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class PrototypeLoss(nn.Module):
    def __init__(self, classes, dim, momentum=0.9):
        super().__init__()
        self.prototypes = nn.Parameter(torch.randn(classes, dim))
        self.momentum = momentum

    def update(self, z, y):
        for c in y.unique():
            mean = z[y == c].mean(0)
            self.prototypes.data[c] = self.momentum * self.prototypes.data[c] + (1 - self.momentum) * mean

    def forward(self, z, y):
        return F.cross_entropy(-torch.cdist(z, self.prototypes), y)


encoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 16))
criterion = PrototypeLoss(10, 16)
optimizer = torch.optim.Adam(encoder.parameters(), lr=1e-3)
for step in range(40):
    y = torch.randint(1, 10, (32,))  # class 0 is the background, rare
    x = torch.randn(32, 10) + y.unsqueeze(1)
    z = encoder(x)
    loss = criterion(z, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    criterion.update(z.detach(), y)
print(loss.item())
