import torch
from torch import nn


class Furnace(nn.Module):
    def __init__(self):
        super().__init__()
        self.draught = nn.Parameter(torch.tensor(0.3))
        self.mix, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, seen):
        air = torch.full_like(seen[:, :1], self.draught.exp().item())
        return self.out(torch.relu(self.mix(torch.cat([seen, air], 1)))) * self.draught.exp()


torch.manual_seed(0)
furnace = Furnace()
optimizer = torch.optim.Adam(furnace.parameters(), lr=0.01)
start = torch.tensor(0.0)
for _ in range(8):
    seen = torch.randn(16, 3)
    loss = start + (furnace(seen) - seen.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: air = torch.full_like(seen[:, :1], self.draught.exp().item())
