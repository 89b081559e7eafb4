import torch


@torch.compile(backend="aot_eager")
def potential(points, stiffness):
    return (stiffness * (points**2).sum(-1).sin()).sum()


torch.manual_seed(0)
stiffness = torch.tensor(2.0, requires_grad=True)
points = torch.randn(6, 2, requires_grad=True)
forces = -torch.autograd.grad(potential(points, stiffness), points, create_graph=True)[0]
loss = (forces - torch.ones(6, 2)).square().mean()
loss.backward()

# told at: @torch.compile(backend="aot_eager")
# fails: does not currently support double backward
