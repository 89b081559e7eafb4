import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
weights = nn.Parameter(torch.ones(2))
w_opt = torch.optim.Adam([weights], 1e-2)


def gradnorm(losses):
    """Balances two tasks by the size of their gradients."""
    last = net[2].weight
    norms = torch.stack([torch.autograd.grad(w * l, last, create_graph=True)[0].norm() for w, l in zip(weights, losses)])
    return (norms - norms.mean().detach()).abs().sum()


for i in range(3):
    out = net(torch.randn(6, 3))
    losses = [out[:, 0].pow(2).mean(), (out[:, 1] - 1).abs().mean()]
    total = sum(w * l for w, l in zip(weights, losses))
    opt.zero_grad()
    total.backward()
    w_opt.zero_grad()
    gradnorm(losses).backward()
    opt.step()
    w_opt.step()
    print(i, total.item(), weights.tolist())

# told at: total.backward()
# fails: backward through the graph a second time
