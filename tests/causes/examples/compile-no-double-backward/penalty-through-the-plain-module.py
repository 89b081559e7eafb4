import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
fast = torch.compile(net, backend="eager")
mixed = torch.randn(5, 3, requires_grad=True)
slope = torch.autograd.grad(net(mixed).sum(), mixed, create_graph=True)[0]
loss = fast(mixed.detach()).mean() + (slope.norm(dim=1) - 1).square().mean()
loss.backward()
print(net[0].weight.grad.shape)
