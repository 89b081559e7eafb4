import torch

torch.manual_seed(0)
x, y, held_x, held_y = torch.randn(20, 3), torch.randn(20), torch.randn(20, 3), torch.randn(20)
decay = torch.zeros(3, requires_grad=True)
scale = torch.ones((), requires_grad=True)
hyper = [decay, scale]


def update(weights, hyper):
    loss = (x @ weights - y).square().mean() + (hyper[0].exp() * weights.square()).sum()
    return weights - 0.1 * torch.autograd.grad(loss, weights, create_graph=True)[0]


def held_out(weights, hyper):
    return (hyper[1] * (held_x @ weights) - held_y).square().mean()


def hypergradient(weights, hyper, terms=4):
    weights = weights.detach().requires_grad_()
    outer = held_out(weights, hyper)
    direct = torch.autograd.grad(outer, hyper, retain_graph=True, allow_unused=True)
    v = torch.autograd.grad(outer, weights)[0]
    mapped = update(weights, hyper)
    total = v
    for _ in range(terms):
        v = torch.autograd.grad(mapped, weights, grad_outputs=v, retain_graph=True)[0]
        total = total + v
    through = torch.autograd.grad(mapped, hyper, grad_outputs=total)
    return [t if d is None else t + d for t, d in zip(through, direct)]


weights = torch.zeros(3, requires_grad=True)
for _ in range(3):
    weights = update(weights, hyper).detach().requires_grad_()
print(hypergradient(weights, hyper))
# told at: through = torch.autograd.grad(mapped, hyper, grad_outputs=total)
# fails: appears to not have been used in the graph
