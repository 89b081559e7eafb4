import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 64)
        self.b = nn.Linear(64, 8)

    def forward(self, x):
        return self.b(self.a(x) * 40)


torch.manual_seed(0)
frozen = Scorer()
with torch.no_grad():
    frozen.b.weight.mul_(400)
frozen = frozen.half().requires_grad_(False)
head = nn.Linear(8, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=1e-9)
for step in range(6):
    x = torch.ones(4, 8) * (step + 1) * 3
    loss = head(frozen(x.to(frozen.a.weight.dtype)).float()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return self.b(self.a(x) * 40)
