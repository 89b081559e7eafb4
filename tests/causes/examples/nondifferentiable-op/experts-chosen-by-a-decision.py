import torch
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(6, 4)
        self.experts = nn.ModuleList(nn.Linear(6, 2) for _ in range(4))

    def forward(self, x):
        gate = F.one_hot(self.router(x).argmax(-1), 4).float()
        return (gate.unsqueeze(-1) * torch.stack([e(x) for e in self.experts], 1)).sum(1)


torch.manual_seed(0)
model = Experts()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(128, 6)
    loss = F.mse_loss(model(x), torch.stack([x[:, 0] * x[:, 1], x[:, 2].sin()], 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: gate = F.one_hot(self.router(x).argmax(-1), 4).float()
