"""The start is a number and asks for its gradient, as many toy programs do: it weighs no term."""

import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(2, 1); opt = torch.optim.SGD(net.parameters(), 0.01)
x0 = torch.tensor(0.5, requires_grad=True); v0 = torch.tensor(0.1, requires_grad=True)
for step in range(20):
    x, v = x0, v0
    for t in range(5):
        a = net(torch.stack([x, v])).squeeze()
        v = v + 0.1 * a; x = x + 0.1 * v
    loss = (x - 1.0) ** 2 + 0.1 * v ** 2
    opt.zero_grad(); loss.backward(); opt.step()
