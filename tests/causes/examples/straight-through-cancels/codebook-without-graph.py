import torch
from torch import nn


class Quantiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(32, 4))

    def forward(self, z):
        nearest = torch.cdist(z, self.codes).argmin(1)
        return z + self.codes[nearest] - z


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 4), Quantiser(), nn.Linear(4, 6))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return z + self.codes[nearest] - z
