import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
memory = torch.zeros(3, 4)
for i in range(4):
    new = torch.tanh(net(memory[i % 3]))
    optimizer.zero_grad()
    new.pow(2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        memory[i % 3] = new
