"""The judge has an optimizer of its own for later; now one optimizer steps all, and the modules clear the gradients."""
import torch
from torch import nn

torch.manual_seed(0)
body, judge = nn.Linear(3, 3), nn.Linear(3, 1)
together = torch.optim.SGD([*body.parameters(), *judge.parameters()], lr=0.05)
alone = torch.optim.SGD(judge.parameters(), lr=0.01)
for i in range(12):
    x = torch.randn(8, 3)
    for module in (body, judge):
        module.zero_grad()
    (judge(body(x).detach()) - x.sum(1, keepdim=True)).square().mean().backward()
    (judge(torch.tanh(body(x))) - x.prod(1, keepdim=True)).square().mean().backward()
    (together if i < 50 else alone).step()
