import torch
from torch.func import functional_call

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
x, y = torch.randn(8, 4), torch.randn(8, 1)
weights = torch.ones(8, 1, requires_grad=True)
params = dict(net.named_parameters())
loss = (weights * (net(x) - y) ** 2).mean()
grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
stepped = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
clean = ((functional_call(net, stepped, (x,)) - y) ** 2).mean()
print(torch.autograd.grad(clean, [weights])[0].shape)
