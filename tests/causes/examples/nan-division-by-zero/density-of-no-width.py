"""A Gaussian density whose spread has underflowed: its logarithm and the error over its square are both infinite."""
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def weighted(error, spread):
    return error.square() / spread**2


def density(prediction, target, spread):
    return (0.5 * weighted(target - prediction, spread) + torch.log(spread)).mean()


net = nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(8, 3)
    if step == 3:
        x[0] *= 3000.0
    mean, raw = net(x).chunk(2, dim=1)
    loss = density(mean, x.sum(1, keepdim=True), F.softplus(-raw.abs()))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    assert torch.isfinite(loss), "the loss is not finite"

# told at: return error.square() / spread**2
# fails: the loss is not finite
