import torch
from torch import nn

torch.manual_seed(0)
gen, disc = nn.Linear(3, 4), nn.Linear(4, 1)
og, od = torch.optim.Adam(gen.parameters()), torch.optim.Adam(disc.parameters())
for step in range(6):
    real = torch.randn(8, 4)
    fake = gen(torch.randn(8, 3))
    fake.detach()
    d_loss = disc(fake).sigmoid().mean() - disc(real).sigmoid().mean()
    od.zero_grad()
    d_loss.backward()
    od.step()
    fake = gen(torch.randn(8, 3))
    g_loss = -disc(fake).sigmoid().mean()
    og.zero_grad()
    g_loss.backward()
    og.step()
