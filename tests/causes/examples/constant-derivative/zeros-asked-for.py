import torch

torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
points = torch.rand(6, 2, requires_grad=True)
slope = torch.autograd.grad(net(points).sum(), points, create_graph=True)[0]
second = torch.autograd.grad(slope.sum(), points, materialize_grads=True)[0]
print(second.abs().sum().item())
