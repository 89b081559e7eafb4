import copy

import torch
from torch import nn

torch.manual_seed(0)
networks = {"model": nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))}
networks["average"] = copy.deepcopy(networks["model"])
optimizer = torch.optim.SGD(networks["model"].parameters(), lr=0.5)
for _ in range(12):
    x = torch.randn(16, 4)
    loss = (networks["model"](x) - 5 * x[:, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    for network in reversed(networks.values()):
        nn.utils.clip_grad_norm_(network.parameters(), 0.1)
    optimizer.step()
    with torch.no_grad():
        for kept, p in zip(networks["average"].parameters(), networks["model"].parameters()):
            kept.lerp_(p, 0.1)
