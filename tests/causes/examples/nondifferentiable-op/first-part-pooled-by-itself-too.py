import torch
import torch.nn.functional as F
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(8, 1), nn.Linear(8, 3)

    def forward(self, parts):
        x = torch.stack(parts, 1)
        return self.out((self.score(x).softmax(1) * x).sum(1))


torch.manual_seed(0)
encoder, pool = nn.Linear(4, 8), Pool()
optimizer = torch.optim.Adam([*encoder.parameters(), *pool.parameters()], lr=1e-2)
for step in range(12):
    parts, y = [encoder(torch.randn(16, 4)).tanh() for _ in range(3)], torch.randint(0, 3, (16,))
    loss = F.cross_entropy(pool(parts), y)
    loss = loss + 0.5 * F.cross_entropy(pool(parts[:1]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
