import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 3, requires_grad=True)
    u = net(x)
    g = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
    v = torch.randn_like(x)
    for _ in range(2):
        v = torch.autograd.grad((g * v).sum(), x, retain_graph=True)[0]
        v = v / v.norm(dim=1, keepdim=True)
    loss = sum([(u - 1).square().mean(), ((g * v).sum(1)).square().mean()])
    opt.zero_grad(); loss.backward(); opt.step()
