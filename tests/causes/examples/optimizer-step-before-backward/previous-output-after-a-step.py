import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 4))
head = nn.Linear(4, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)

memory = torch.zeros(1, 4)
for step in range(3):
    value = head(memory).pow(2).sum()
    memory = encoder(torch.randn(1, 2))
    optimizer.zero_grad()
    value.backward()
    optimizer.step()

# told at: memory = encoder(torch.randn(1, 2))
# fails: modified by an inplace operation
