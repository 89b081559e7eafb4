import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for _ in range(8):
    x = torch.randn(16, 6)
    target = net(x).softmax(1).detach()
    score = net(x + 0.1 * torch.randn(16, 6)).log_softmax(1)
    loss = -(target * score).sum(1).mean() + (target * target.log()).sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
