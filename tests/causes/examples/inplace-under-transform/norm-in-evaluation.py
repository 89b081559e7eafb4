"""In evaluation BatchNorm reads its buffers and writes none."""

import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)).eval()


def loss(parameters, x):
    return functional_call(net, parameters, (x,)).square().mean()


parameters = {name: p.detach() for name, p in net.named_parameters()}
gradients = grad(loss)(parameters, torch.randn(16, 4))
print(sorted(gradients))
