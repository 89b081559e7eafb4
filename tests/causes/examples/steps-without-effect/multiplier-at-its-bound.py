import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 2)
multipliers = nn.Parameter(torch.zeros(6))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
dual = torch.optim.SGD([multipliers], lr=0.1)
for _ in range(12):
    x = torch.randn(32, 4)
    out = net(x)
    costs = out.square().mean() - torch.arange(5.0, 11.0)
    loss = (out.sum(1) - x.sum(1)).square().mean() + (multipliers.detach() * costs).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    dual.zero_grad()
    (-(multipliers * costs.detach()).sum()).backward()
    dual.step()
    multipliers.data.clamp_(min=0)
