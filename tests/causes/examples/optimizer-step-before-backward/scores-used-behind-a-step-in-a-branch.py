import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
g = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 3))
d = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt_g, opt_d = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
seen, curve = 0, []


def alternate(epoch):
    global seen
    fake = g(torch.randn(5, 2))
    of_fake = d(fake)
    of_real = d(torch.randn(5, 3))
    seen += of_fake.shape[0]
    d_loss = (softplus(-of_real) + softplus(of_fake)).mean()
    g_loss = softplus(-of_fake).mean()
    curve.append(d_loss.item())
    if epoch >= 1:
        opt_d.zero_grad()
        d_loss.backward(retain_graph=True)
        opt_d.step()
        opt_g.zero_grad()
        g_loss.backward()
        opt_g.step()


for epoch in range(4):
    alternate(epoch)

# told at: opt_d.step()
# fails: modified by an inplace operation
