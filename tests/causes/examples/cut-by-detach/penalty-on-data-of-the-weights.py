import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def sparseness(layers):
    total = 0.0
    for name, p in layers.named_parameters():
        if name.endswith("weight"):  # the condition says what is penalised, not whether it has a gradient
            total = total + p.data.abs().sum()
    return total


def loss_of(x, y):
    terms = {"fit": F.cross_entropy(model(x), y), "sparse": 0.01 * sparseness(model)}
    return sum(terms.values())


for _ in range(8):
    x = torch.randn(16, 6)
    loss = loss_of(x, (x[:, 0] > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: total = total + p.data.abs().sum()
