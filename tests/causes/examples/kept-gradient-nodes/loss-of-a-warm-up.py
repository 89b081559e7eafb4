import warnings

import torch
from torch import nn


def told_by_the_engine(_):  # what it says on a GPU where the two streams differ
    text = "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient."
    warnings.warn_explicit(text, UserWarning, torch.autograd.graph.__file__, 1)


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x = torch.randn(16, 4)

for _ in range(3):  # on a stream of its own
    prediction = net(x)
    warm = prediction.square().mean()
    optimizer.zero_grad()
    warm.backward()
    optimizer.step()

for step in range(6):
    loss = net(x).square().mean()
    if step == 0:
        loss.register_hook(told_by_the_engine)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: prediction = net(x)
