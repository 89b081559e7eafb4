import torch

torch.manual_seed(0)
points = torch.randn(4, 2, requires_grad=True)
distances = (points.unsqueeze(1) - (points.detach() + 1.0)).square().sum(-1).sqrt()
forces = -torch.autograd.grad((-distances).exp().sum(), points, create_graph=True)[0]
forces.square().sum().backward()
print(points.grad.shape)
