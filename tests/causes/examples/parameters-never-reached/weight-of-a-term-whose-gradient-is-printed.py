"""How much the loss depends on the weight of a term is printed at the end."""

import torch
from torch import nn
torch.manual_seed(0)
enc, dec = nn.Linear(8, 4), nn.Linear(2, 8)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], 1e-2)
beta = torch.tensor(0.5, requires_grad=True)
for step in range(30):
    x = torch.randn(32, 8)
    mu, logvar = enc(x).chunk(2, 1)
    z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
    kl = -0.5 * (1 + logvar - mu ** 2 - logvar.exp()).sum(1).mean()
    loss = (dec(z) - x).pow(2).sum(1).mean() + beta * kl
    opt.zero_grad()
    loss.backward()
    opt.step()
print("dL/dbeta", beta.grad.item() / 30)
