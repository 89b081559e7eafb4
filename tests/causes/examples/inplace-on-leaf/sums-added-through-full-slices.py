import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    table = torch.zeros(4, 3)
    for block in range(2):
        table[2 * block : 2 * block + 2][:][:] += net(torch.randn(2, 3))
    optimizer.zero_grad()
    table.square().mean().backward()
    optimizer.step()

# told at: table[2 * block : 2 * block + 2][:][:] += net(torch.randn(2, 3))
# fails: a leaf Variable that requires grad is being used in an in-place operation
