import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), 0.1)


def perturbed(params, rho=0.05):
    """Sharpness: moves to the worst point nearby and back."""
    grads = [p.grad for p in params]
    norm = torch.stack([g.norm() for g in grads]).norm()
    with torch.no_grad():
        for p, g in zip(params, grads):
            p.add_(g, alpha=float(rho / norm))


for i in range(3):
    x = torch.randn(8, 4)
    y = x.sum(1, keepdim=True)
    params = list(net.parameters())
    out = net(x)
    loss = F.mse_loss(out, y)
    opt.zero_grad()
    loss.backward(retain_graph=True)
    saved = [p.detach().clone() for p in params]
    perturbed(params)
    opt.zero_grad()
    second = F.mse_loss(out, y)
    second.backward()
    with torch.no_grad():
        for p, s in zip(params, saved):
            p.copy_(s)
    opt.step()
    print(i, loss.item())

# told at: p.add_(g, alpha=float(rho / norm))
# fails: modified by an inplace operation
