import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.001)
best, best_net = 1e9, net
for i, x in enumerate(torch.randn(12, 8, 3)):
    near, far = net(x), net(x + 0.1)
    loss = (near - far).pow(2).mean() + (near.std() - 1).pow(2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if loss.item() < best:
        best, best_net = loss.item(), net
    if i % 3 == 2:
        net.load_state_dict(best_net.state_dict())
