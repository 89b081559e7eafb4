import copy

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
stem, head = nn.Sequential(nn.Linear(5, 8), nn.Tanh()), nn.Linear(8, 3)
teacher = copy.deepcopy(stem).requires_grad_(False)
optimizer = torch.optim.SGD([*stem.parameters(), *head.parameters()], lr=0.1)


def imitation(mine, yours):
    return F.mse_loss(mine, yours)


for _ in range(8):
    x, y = torch.randn(16, 5), torch.randint(3, (16,))
    mine, yours = stem(x), teacher(x)
    low = imitation(mine[:, :4], yours[:, :4]).detach() * 5
    high = imitation(mine[:, 4:], yours[:, 4:]).detach() * 2
    loss = low + high + F.cross_entropy(head(mine), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: low = imitation(mine[:, :4], yours[:, :4]).detach() * 5
