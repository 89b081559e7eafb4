import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss(parameters, x):
    value = functional_call(net, parameters, (x,)).square().mean()
    value.backward()
    return value


parameters = dict(net.named_parameters())
for _ in range(3):
    gradients = grad(loss)(parameters, torch.randn(16, 4))
    parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}

# told at: value.backward()
# fails: backward() called inside a functorch transform
