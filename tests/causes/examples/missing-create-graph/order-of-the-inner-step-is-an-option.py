import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Linear(3, 1)
strength = nn.Parameter(torch.zeros(3))
optimizer = torch.optim.SGD([*net.parameters(), strength], lr=0.05)
options = {"second_order": False}

for step in range(20):
    x = torch.randn(8, 3)
    params = dict(net.named_parameters())
    inner = (functional_call(net, params, (x,)) - x.sum(1, keepdim=True)).pow(2).mean()
    inner = inner + (strength.exp() * params["weight"].square()).mean()
    grads = torch.autograd.grad(inner, list(params.values()), create_graph=options["second_order"])
    params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
    outer = (functional_call(net, params, (x + 0.1,)) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
print(outer.item())
