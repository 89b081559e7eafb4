import torch
from torch.func import functional_call

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
x, y = torch.randn(8, 4), torch.randn(8, 1)


def weights_of(x, y, clean_x, clean_y):
    weights = torch.zeros(len(x), 1, requires_grad=True)
    params = dict(net.named_parameters())
    weighted = (weights * (functional_call(net, params, (x,)) - y) ** 2).sum()
    grads = torch.autograd.grad(weighted, list(params.values()))
    stepped = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads, strict=True)}
    clean = ((functional_call(net, stepped, (clean_x,)) - clean_y) ** 2).mean()
    return torch.autograd.grad(clean, weights)[0].neg().clamp(min=0)


print(weights_of(x, y, torch.randn(4, 4), torch.randn(4, 1)).shape)

# told at: grads = torch.autograd.grad(weighted, list(params.values()))
# fails: not have been used in the graph
