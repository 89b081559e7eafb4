import torch

torch.manual_seed(0)
potential = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def force(points):
    points = points.requires_grad_()
    return -torch.autograd.grad(potential(points), points)[0]


print(force(torch.randn(6, 2)))

# told at: return -torch.autograd.grad(potential(points), points)[0]
# fails: grad can be implicitly created only for scalar outputs
