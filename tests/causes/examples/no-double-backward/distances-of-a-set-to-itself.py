import torch

torch.manual_seed(0)
points = torch.randn(4, 2, requires_grad=True)
spread = torch.cdist(points, points).exp().sum()
forces = torch.autograd.grad(spread, points, create_graph=True)[0]
forces.square().sum().backward()

# told at: spread = torch.cdist(points, points).exp().sum()
# fails: _cdist_backward' is not implemented
