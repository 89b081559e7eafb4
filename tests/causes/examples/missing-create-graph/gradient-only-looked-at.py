import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
x = torch.randn(4, 3)
fit, size = (net(x) - 1).square().mean(), net(x).abs().mean()
(g_fit,) = torch.autograd.grad(fit, net.weight, retain_graph=True)
(g_size,) = torch.autograd.grad(size, net.weight, retain_graph=True)
balance = g_fit.norm() / (g_size.norm() + 1e-6)
(fit + balance * size).backward()
print(net.weight.grad is not None)
