import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.005)

for step in range(40):
    x = torch.randn(16, 4)
    optimizer.zero_grad()
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    net[4].weight.data.clamp_(min=-0.1, max=0.1)
    loss.backward()
    optimizer.step()
print(loss.item())

# told at: net[4].weight.data.clamp_(min=-0.1, max=0.1)
