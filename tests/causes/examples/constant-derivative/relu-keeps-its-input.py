import torch

x = torch.linspace(-1, 1, 5, requires_grad=True)
first = torch.autograd.grad(x.relu().sum(), x, create_graph=True)[0]
second = torch.autograd.grad(first.sum(), x)[0]
print(second.abs().sum().item())
