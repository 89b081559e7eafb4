import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 2)
fisher = [torch.zeros_like(p) for p in model.parameters()]
for x in torch.randn(10, 1, 3):
    model.zero_grad()
    model(x).log_softmax(1)[0, 0].backward()
    for total, p in zip(fisher, model.parameters()):
        total += p.grad.detach() ** 2
