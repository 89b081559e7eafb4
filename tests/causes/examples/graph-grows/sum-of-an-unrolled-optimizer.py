import torch
from torch import nn

# A learned rate is trained through several inner updates: the sum of the losses is what is differentiated, and between
# its terms the inner gradients are computed. The improvement over the step before is told by that loss's plain number.
torch.manual_seed(0)
rate = nn.Parameter(torch.tensor(0.05))
outer = torch.optim.Adam([rate], lr=0.001)
for _ in range(6):
    weight = torch.zeros(4, 1, requires_grad=True)
    total, before = torch.zeros(()), torch.zeros(())
    for _ in range(4):
        x = torch.randn(16, 4)
        inner = weight.detach().requires_grad_()
        (x @ inner - x.sum(1, keepdim=True)).pow(2).mean().backward()
        weight = weight - rate * inner.grad
        loss = (x @ weight - x.sum(1, keepdim=True)).pow(2).mean()
        total = total + (loss - before)
        before = loss.data
    outer.zero_grad()
    total.backward()
    outer.step()
