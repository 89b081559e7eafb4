import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
loss_net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam([*net.parameters(), *loss_net.parameters()], lr=0.01)


def adapt(x, y, steps=2):
    params = dict(net.named_parameters())
    for _ in range(steps):
        out = functional_call(net, params, (x,))
        inner_loss = loss_net(torch.cat([out, y], dim=1)).mean()
        grads = torch.autograd.grad(inner_loss, params.values())
        params = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
    return params


for step in range(20):
    x, task = torch.randn(8, 3), torch.randn(3, 1)
    params = adapt(x, x @ task)
    test = torch.randn(8, 3)
    outer_loss = (functional_call(net, params, (test,)) - test @ task).pow(2).mean()
    optimizer.zero_grad()
    outer_loss.backward()
    optimizer.step()
print(outer_loss.item())

# told at: grads = torch.autograd.grad(inner_loss, params.values())
