import warnings

import torch
from torch import nn


def told_by_the_engine(_):  # what it says on a GPU where the two streams differ
    text = "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient."
    warnings.warn_explicit(text, UserWarning, torch.autograd.graph.__file__, 1)


warnings.showwarning = lambda *_, **__: None  # the two streams are meant
torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
kept = []
for step in range(6):
    loss = net(torch.randn(16, 4)).square().mean()
    if step == 3:
        loss.register_hook(told_by_the_engine)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept.append(loss.detach())
