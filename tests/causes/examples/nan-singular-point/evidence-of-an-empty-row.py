import torch
from torch import nn

torch.manual_seed(0)
head = nn.Linear(4, 3)
optimizer = torch.optim.SGD(head.parameters(), lr=0.01)


def normaliser(concentration):
    parts = torch.lgamma(concentration).sum(-1)
    return parts - torch.lgamma(concentration.sum(-1))


for step in range(5):
    evidence = torch.relu(head(torch.randn(8, 4)))
    loss = normaliser(evidence).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: parts = torch.lgamma(concentration).sum(-1)
