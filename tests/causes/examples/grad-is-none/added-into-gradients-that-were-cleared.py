import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
weights = list(net.parameters())
optimizer = torch.optim.SGD(weights, lr=0.1)
net(torch.ones(2, 3)).mean().backward()
optimizer.step()
for step in range(4):
    optimizer.zero_grad()
    for part in torch.randn(2, 5, 3):
        loss = net(part).square().mean()
        for w, g in zip(weights, torch.autograd.grad(loss, weights), strict=True):
            w.grad.add_(g)
    optimizer.step()

# told at: optimizer.zero_grad()
# fails: 'NoneType' object has no attribute 'add_'
