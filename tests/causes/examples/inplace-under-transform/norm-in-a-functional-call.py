import torch
from torch import nn
from torch.func import functional_call, grad

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


def loss(parameters, x):
    return functional_call(net, parameters, (x,)).square().mean()


parameters = {name: p.detach() for name, p in net.named_parameters()}
for _ in range(3):
    gradients = grad(loss)(parameters, torch.randn(16, 4))
    parameters = {name: p - 0.1 * gradients[name] for name, p in parameters.items()}

# told at: net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
# fails: that would mutate a captured Tensor
