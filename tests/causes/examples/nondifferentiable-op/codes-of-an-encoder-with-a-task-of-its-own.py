import torch
from torch import nn
from torch.nn import functional as F


class Palette(nn.Module):
    def __init__(self, colours, size):
        super().__init__()
        self.table = nn.Embedding(colours, size)

    def forward(self, z):
        number = torch.cdist(z, self.table.weight).argmin(-1)
        chosen = self.table(number)
        return {"through": z + (chosen - z).detach(), "chosen": chosen, "near": F.mse_loss(z, chosen.detach())}


torch.manual_seed(0)
# the painter learns to know its pictures again; the printer and the table learn what the colours look like
painter, palette, printer = nn.Linear(6, 3), Palette(8, 3), nn.Linear(3, 6)
parts = nn.ModuleList([painter, palette, printer])
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-2)
for _ in range(20):
    picture = torch.rand(32, 6)
    z = painter(picture)
    found = palette(z)
    again = F.normalize(painter(picture + 0.1 * torch.randn(32, 6)))
    loss = F.cross_entropy(F.normalize(z) @ again.T / 0.3, torch.arange(32)) + found["near"]
    loss = loss + F.mse_loss(printer(found["chosen"]), picture)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
