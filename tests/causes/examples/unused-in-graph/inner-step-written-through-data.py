import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
learner = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
start = [p.detach().clone().requires_grad_() for p in learner.parameters()]
optimizer = torch.optim.Adam(start, 1e-2)


def inner_step(values, x, y):
    for param, value in zip(learner.parameters(), values):
        param.data.copy_(value.data)
    grads = torch.autograd.grad(F.cross_entropy(learner(x), y), list(learner.parameters()))
    return [value - 0.1 * grad for value, grad in zip(values, grads)]


for task in range(3):
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    fast = inner_step(start, x, y)
    for param, value in zip(learner.parameters(), fast):
        param.data = value
    outer = F.cross_entropy(learner(x), y)
    for value, grad in zip(start, torch.autograd.grad(outer, start)):
        value.grad = grad
    optimizer.step()

# told at: param.data = value
# fails: appears to not have been used in the graph
