import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)


def derivative(u, x):
    return torch.autograd.grad(u.sum(), x, create_graph=True)[0]


for step in range(2):
    points = torch.rand(20, 1)
    u = net(points)
    residual = derivative(u, points) + u
    loss = residual.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: points = torch.rand(20, 1)
# fails: One of the differentiated Tensors does not require grad
