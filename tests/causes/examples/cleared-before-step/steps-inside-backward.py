import torch
from torch import nn

# The memory of the gradients is given back while backward runs; the step at the end is for the scheduler's sake.
torch.manual_seed(0)
model = nn.Linear(4, 1)
each = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}


def apply(p):
    each[p].step()
    each[p].zero_grad()


for p in model.parameters():
    p.register_post_accumulate_grad_hook(apply)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
