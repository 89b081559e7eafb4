import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
critic = torch.compile(net, backend="aot_eager")
mixed = torch.randn(5, 3, requires_grad=True)
slope = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
penalty = (slope.norm(dim=1) - 1).square().mean()
penalty.backward()

# told at: critic = torch.compile(net, backend="aot_eager")
# fails: does not currently support double backward
