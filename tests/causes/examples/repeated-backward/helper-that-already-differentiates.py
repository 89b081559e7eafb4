import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def compute_loss(x):
    loss = model(x).pow(2).mean()
    loss.backward()
    return loss


for _ in range(2):
    optimizer.zero_grad()
    objective = compute_loss(torch.randn(4, 3))
    objective.backward()
    optimizer.step()

# told at: objective.backward()
# fails: backward through the graph a second time
