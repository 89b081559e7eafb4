import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
start = copy.deepcopy(net.state_dict())
query_losses = []
for phase in torch.rand(2):
    x = torch.linspace(-1, 1, 6).unsqueeze(1)
    y = torch.sin(3 * x + phase)
    grads = torch.autograd.grad((net(x) - y).pow(2).mean(), list(net.parameters()))
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads, strict=True):
            p.sub_(0.1 * g)
    query_losses.append((net(x) - y).pow(2).mean())
    net.load_state_dict(start)
torch.stack(query_losses).mean().backward()

# told at: net.load_state_dict(start)
# fails: modified by an inplace operation
