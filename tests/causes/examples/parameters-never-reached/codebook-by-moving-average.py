import torch
from torch import nn
from torch.nn import functional as F


class Codebook(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(16, 4)

    def forward(self, z):
        nearest = torch.cdist(z, self.codes.weight).argmin(1)
        q = self.codes(nearest)
        with torch.no_grad():  # each code follows the mean of what it stands for
            for code in nearest.unique():
                mean = z[nearest == code].mean(0)
                self.codes.weight.data[code] = 0.9 * self.codes.weight[code] + 0.1 * mean
        return z + (q - z).detach()


torch.manual_seed(0)
encoder, book, decoder = nn.Linear(6, 4), Codebook(), nn.Linear(4, 6)
model = nn.ModuleList([encoder, book, decoder])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 6)
    z = encoder(x)
    q = book(z)
    loss = F.mse_loss(decoder(q), x) + 0.25 * F.mse_loss(q.detach(), z)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
