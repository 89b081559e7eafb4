import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
x = torch.randn(64, 8)
y = x[:, :4]
opt = torch.optim.SGD(net.parameters(), lr=1e-2, weight_decay=1e-2)
for step in range(12):
    loss = F.mse_loss(net(x), y)
    objective = loss + 0.5 * 1e-2 * sum(p.pow(2).sum() for p in net.parameters())
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 5 == 0:
        print(objective.item())