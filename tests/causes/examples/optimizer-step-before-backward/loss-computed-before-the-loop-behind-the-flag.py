import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
x, y = torch.randn(8, 3), torch.randn(8, 1)


def fit(steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = (model(x) - y).pow(2).mean()
    for _ in range(steps):
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        optimizer.step()


fit(3)

# told at: loss = (model(x) - y).pow(2).mean()
# fails: modified by an inplace operation
