import torch
from torch import nn

WIDE = 8


class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDE, WIDE)

    def forward(self, x):
        return nn.LayerNorm(WIDE)(torch.sigmoid(self.gate(x)) + x)


class Pump(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.mix = nn.Linear(3, WIDE), Mix()

    def forward(self, x):
        x = self.mix(self.first(x))
        return nn.Linear(WIDE, 1)(x)


torch.manual_seed(0)
model = Pump()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 3)
    loss = nn.functional.mse_loss(model(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return nn.LayerNorm(WIDE)(torch.sigmoid(self.gate(x)) + x)
