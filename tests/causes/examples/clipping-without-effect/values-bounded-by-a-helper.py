import torch
from torch import nn


def keep_small(parameters, bound):
    nn.utils.clip_grad_value_(parameters, bound)


torch.manual_seed(0)
views = nn.Linear(4, 4)
head = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
head_optimizer = torch.optim.SGD(head.parameters(), lr=0.01)
views_optimizer = torch.optim.SGD(views.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    head_optimizer.zero_grad()
    views_optimizer.zero_grad()
    loss = (head(views(x)) - 10 * x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    head_optimizer.step()
    views_optimizer.step()
    keep_small(views.parameters(), 0.01)

# told at: keep_small(views.parameters(), 0.01)
