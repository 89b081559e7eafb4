import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Linear(4, 1)
average = torch.zeros(())


def loss(parameters, x):
    value = functional_call(net, parameters, (x,)).square().mean()
    average.mul_(0.9).add_(value)
    return value


gradients = grad(loss)({name: p.detach() for name, p in net.named_parameters()}, torch.randn(16, 4))

# told at: average.mul_(0.9).add_(value)
# fails: that would mutate a captured Tensor
