"""An evolution strategy that sets the gradients by hand, and a hook of the optimizer's that clears them."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
optimizer.register_step_post_hook(lambda stepped, args, kwargs: stepped.zero_grad())
batch = torch.randn(4, 3)
for _ in range(12):
    base = net(batch).square().mean()
    for p in net.parameters():
        noise = torch.randn_like(p)
        with torch.no_grad():
            p.add_(0.01 * noise)
            other = net(batch).square().mean()
            p.sub_(0.01 * noise)
        p.grad = (other - base).detach() / 0.01 * noise
    optimizer.step()
print(base.item())
