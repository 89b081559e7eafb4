import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

torch.manual_seed(0)
learner = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3))
names = [name for name, _ in learner.named_parameters()]
start = [p.detach().clone().requires_grad_() for p in learner.parameters()]
average = [p.detach().clone() for p in start]
optimizer = torch.optim.Adam(start, 1e-2)

for task in range(3):
    x, y = torch.randn(6, 5), torch.randint(0, 3, (6,))
    before = F.cross_entropy(functional_call(learner, dict(zip(names, start)), (x,)), y)
    grads = torch.autograd.grad(before, start, create_graph=True)
    fast = [value - 0.1 * grad for value, grad in zip(start, grads)]
    outer = F.cross_entropy(functional_call(learner, dict(zip(names, fast)), (x,)), y)
    for value, grad in zip(start, torch.autograd.grad(outer, start)):
        value.grad = grad
    optimizer.step()
    for kept, value in zip(average, start):
        kept.data = 0.9 * kept + 0.1 * value.data
