import torch
from torch import nn

torch.manual_seed(0)


def laplacian(function, x):
    slope = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    total = 0
    for i in range(x.shape[1]):
        total = total + torch.autograd.grad(slope[:, i].sum(), x, create_graph=True)[0][:, i]
    return total


points = torch.rand(6, 2, requires_grad=True)
print(laplacian(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)), points).shape)
print(laplacian(nn.Linear(2, 1), points).shape)

# told at: total = total + torch.autograd.grad(slope[:, i].sum(), x, create_graph=True)[0][:, i]
# fails: appears to not have been used in the graph
