"""A worker's own optimizer clears it and never steps: its gradients become those of the server, which steps."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
server = nn.Linear(4, 1)
worker = copy.deepcopy(server)
optimizer = torch.optim.SGD(server.parameters(), lr=0.05)
clearing = torch.optim.SGD(worker.parameters(), lr=0.05)
for _ in range(12):
    worker.load_state_dict(server.state_dict())
    x = torch.randn(16, 4)
    clearing.zero_grad()
    (worker(x) - x.sum(1, keepdim=True)).square().mean().backward()
    for p, q in zip(server.parameters(), worker.parameters(), strict=True):
        p.grad = q.grad.clone()
    optimizer.step()
