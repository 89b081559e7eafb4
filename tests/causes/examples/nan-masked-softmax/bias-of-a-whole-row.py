import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
project, head = nn.Linear(8, 24), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*project.parameters(), *head.parameters()], lr=0.01)
known = torch.arange(5) < torch.tensor([5, 2, 4])[:, None]
bias = torch.zeros(3, 5, 5)
bias[~(known[:, None, :] & known[:, :, None])] = float("-inf")
for _ in range(5):
    q, k, v = project(torch.randn(3, 5, 8)).chunk(3, -1)
    weights = F.softmax(q @ k.mT / 3 + bias, dim=-1)
    error = (head(weights @ v).squeeze(-1) - 1) ** 2
    loss = torch.where(known, error, 0.0).sum() / known.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: weights = F.softmax(q @ k.mT / 3 + bias, dim=-1)
