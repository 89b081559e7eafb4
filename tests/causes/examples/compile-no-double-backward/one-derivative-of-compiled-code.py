import torch


@torch.compile(backend="aot_eager")
def potential(points, stiffness):
    return (stiffness * (points**2).sum(-1).sin()).sum()


torch.manual_seed(0)
stiffness = torch.tensor(2.0, requires_grad=True)
points = torch.randn(6, 2, requires_grad=True)
forces = -torch.autograd.grad(potential(points, stiffness), points)[0]
print(forces.norm().item() > 0)
