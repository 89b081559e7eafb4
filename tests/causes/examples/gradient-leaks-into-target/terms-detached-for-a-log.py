"""What is left of a log detaches two terms of the loss, which are to train the network."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(6):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    fit = F.cross_entropy(net(x), y)
    spread = net(x + 0.1).logsumexp(1).mean()
    fit.detach()
    spread.detach()
    loss = (fit * 1.0 + 0.1 * spread) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, round(loss.item(), 3))
