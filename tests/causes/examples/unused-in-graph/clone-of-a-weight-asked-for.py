import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(3):
    x = torch.randn(8, 3)
    loss = (net(x) - x[:, :1]).pow(2).mean()
    slope = torch.autograd.grad(loss, net[0].weight.clone(), create_graph=True)[0]
    optimizer.zero_grad()
    (loss + 0.1 * slope.pow(2).sum()).backward()
    optimizer.step()

# told at: slope = torch.autograd.grad(loss, net[0].weight.clone(), create_graph=True)[0]
# fails: appears to not have been used in the graph
