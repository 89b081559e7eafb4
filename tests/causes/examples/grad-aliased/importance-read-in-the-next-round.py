import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
x = torch.randn(32, 6)
anchor, importance = {}, {}
nn.functional.mse_loss(net(x), x[:, :1]).backward()
for name, p in net.named_parameters():
    anchor[name] = p.detach().clone()
    importance[name] = p.grad.abs_()
for _ in range(8):
    optimizer.zero_grad(set_to_none=False)
    loss = nn.functional.mse_loss(net(x), -x[:, 1:2])
    for name, p in net.named_parameters():
        loss = loss + (importance[name] * (p - anchor[name]) ** 2).sum()
    loss.backward()
    optimizer.step()

# told at: importance[name] = p.grad.abs_()
