import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
rates = nn.ParameterDict({name.replace(".", "_"): torch.tensor(0.1) for name, _ in net.named_parameters()})
optimizer = torch.optim.Adam([*net.parameters(), *rates.parameters()], lr=0.01)

for step in range(20):
    x, task = torch.randn(8, 3), torch.randn(3, 1)
    params = dict(net.named_parameters())
    inner = (functional_call(net, params, (x,)) - x @ task).pow(2).mean()
    grads = torch.autograd.grad(inner, list(params.values()))
    params = {name: p - rates[name.replace(".", "_")] * g for (name, p), g in zip(params.items(), grads)}
    test = torch.randn(8, 3)
    outer = (functional_call(net, params, (test,)) - test @ task).pow(2).mean()
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
print(outer.item())
