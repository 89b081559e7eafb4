"""A simulated update with inner gradients that are to be constants: the gradient of a Linear weight is a view."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y, shuffled = torch.randn(8, 4), torch.randint(3, (8,)), torch.randint(3, (8,))
for _ in range(3):
    optimizer.zero_grad()
    inner = nn.functional.cross_entropy(net(x), shuffled)
    grads = torch.autograd.grad(inner, net.parameters(), create_graph=True)
    for grad in grads:
        grad.detach_()
        grad.requires_grad = False
    fast = {n: p - 0.5 * g for (n, p), g in zip(net.named_parameters(), grads)}
    nn.functional.cross_entropy(torch.func.functional_call(net, fast, (x,)), y).backward()
    optimizer.step()

# told at: grad.detach_()
# fails: Can't detach views in-place
