"""The gradients of the weights are noted in each round."""

import torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(6, 2); w = torch.tensor([1.0, 0.5], requires_grad=True)
opt = torch.optim.Adam(net.parameters(), 1e-2)
hist = []
for step in range(30):
    x = torch.randn(16, 6); o = net(x)
    l1, l2 = (o[:, 0] - x.sum(1)).pow(2).mean(), (o[:, 1] - x[:, 0]).pow(2).mean()
    loss = w[0] * l1 + w[1] * l2
    opt.zero_grad(); loss.backward(); opt.step()
    for t in (w, ):
        hist.append(t.grad.tolist()); t.grad = None
print(hist[-1])
