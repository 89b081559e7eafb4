import torch
from torch import nn

torch.manual_seed(0)
table = nn.Embedding(8, 3)
optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
for _ in range(3):
    picked = torch.tensor([3, 4, 5, 6], requires_grad=True)
    optimizer.zero_grad()
    table(picked).square().mean().backward()
    optimizer.step()

# told at: picked = torch.tensor([3, 4, 5, 6], requires_grad=True)
# fails: require gradients
