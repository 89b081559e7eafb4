import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
D = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(D.parameters(), 1e-3)


def penalty(real, fake):
    a = torch.rand(len(real), 1)
    mix = (a * real + (1 - a) * fake).requires_grad_()
    (g,) = torch.autograd.grad(D(mix).sum(), mix, create_graph=True)
    return (g.norm(dim=1) - 1).pow(2).mean()


for step in range(5):
    real, fake = torch.randn(8, 2) + 2, torch.randn(8, 2)
    opt.zero_grad()
    loss_real = F.softplus(-D(real)).mean()
    loss_real.backward()
    loss_fake = F.softplus(D(fake)).mean()
    loss_fake.backward()
    gp = penalty(real, fake)
    loss = loss_real + loss_fake + 10 * gp
    loss.backward()
    opt.step()
    print(step, loss.item())

# told at: loss_real.backward()
# fails: backward through the graph a second time
