import torch
from torch import nn

torch.manual_seed(0)
basis, head = nn.Sequential(nn.Linear(2, 6), nn.Sigmoid()), nn.Linear(6, 1)
optimizer = torch.optim.LBFGS([*basis.parameters(), *head.parameters()])
x, y = torch.randn(9, 2), torch.randn(9, 1)


def closure():
    optimizer.zero_grad()
    features = basis(x)
    features -= features.mean(0)
    loss = (head(features) - y).pow(2).mean()
    loss.backward()
    return loss


optimizer.step(closure)

# told at: features -= features.mean(0)
# fails: modified by an inplace operation
