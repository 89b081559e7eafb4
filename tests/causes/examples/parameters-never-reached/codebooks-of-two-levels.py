import torch
from torch import nn
from torch.nn import functional as F


class Level(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(16, 4)

    def forward(self, z):
        q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        return z + (q - z).detach()


torch.manual_seed(0)
encoder, levels, decoder = nn.Linear(6, 4), nn.ModuleList([Level(), Level()]), nn.Linear(4, 6)
model = nn.ModuleList([encoder, levels, decoder])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 6)
    rest, found, loss = encoder(x), 0.0, 0.0
    for level in levels:
        q = level(rest)
        loss = loss + F.mse_loss(q, rest.detach()) + 0.25 * F.mse_loss(q.detach(), rest)
        found, rest = found + q, rest - q.detach()
    loss = loss + F.mse_loss(decoder(found), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return z + (q - z).detach()
