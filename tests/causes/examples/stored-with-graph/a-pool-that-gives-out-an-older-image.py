import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
gen, disc = nn.Linear(4, 3), nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
og = torch.optim.Adam(gen.parameters(), 1e-3)
od = torch.optim.Adam([*disc.parameters(), *gen.parameters()], 1e-3)


class History:
    def __init__(self, n):
        self.images, self.n = [], n

    def mix(self, fake):
        self.images.append(fake)
        if len(self.images) > self.n:
            return self.images.pop(0)
        return fake


pool = History(2)
for i in range(5):
    fake = gen(torch.randn(6, 4)).tanh()
    old = pool.mix(fake)
    d_loss = F.softplus(-disc(torch.randn(6, 3))).mean() + F.softplus(disc(old.detach())).mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    g_loss = F.softplus(-disc(old)).mean()
    og.zero_grad()
    g_loss.backward()
    og.step()
    print(i, d_loss.item(), g_loss.item())

# told at: old = pool.mix(fake)
# fails: backward through the graph a second time
