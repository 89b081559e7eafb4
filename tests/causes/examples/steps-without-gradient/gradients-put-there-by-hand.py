"""First-order meta-learning: the copy's gradients are the model's."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
outer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    learner = copy.deepcopy(model)
    inner = torch.optim.SGD(learner.parameters(), lr=0.1)
    nn.functional.mse_loss(learner(x[:8]), y[:8]).backward()
    inner.step()
    inner.zero_grad()
    nn.functional.mse_loss(learner(x[8:]), y[8:]).backward()
    for p, q in zip(model.parameters(), learner.parameters()):
        p.grad = q.grad.clone()
    outer.step()
