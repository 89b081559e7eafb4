import torch

x = torch.linspace(0, 1, 5, requires_grad=True)
order = {"square": lambda t: t**2, "line": lambda t: 3 * t}
for name, function in order.items():
    first = torch.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x)[0]
    print(name, second.mean().item())

# told at: second = torch.autograd.grad(first.sum(), x)[0]
# fails: does not require grad and does not have a grad_fn
