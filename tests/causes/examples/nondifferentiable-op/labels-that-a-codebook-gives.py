import torch
from torch import nn
from torch.nn import functional as F


class Codes(nn.Module):
    def __init__(self, codes, size):
        super().__init__()
        self.table = nn.Parameter(torch.randn(codes, size))

    def forward(self, z):
        number = torch.cdist(z, self.table).argmin(-1)
        chosen = F.embedding(number, self.table)
        loss = F.mse_loss(chosen, z.detach()) + 0.25 * F.mse_loss(z, chosen.detach())
        return z + (chosen - z).detach(), number, loss


torch.manual_seed(0)
# a listener learns to name what the codes of a second view are; the sum is there for other users of `Codes`
teacher, codes, listener, names = nn.Linear(6, 3), Codes(8, 3), nn.Linear(6, 8), nn.Embedding(8, 8)
parts = nn.ModuleList([teacher, codes, listener, names])
optimizer = torch.optim.Adam(parts.parameters(), lr=1e-2)
for _ in range(20):
    sound = torch.rand(32, 6)
    _, number, loss = codes(teacher(sound))
    before = names(number.roll(1))
    loss = loss + F.cross_entropy(listener(sound * (torch.rand(32, 6) < 0.7)) + before, number)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
