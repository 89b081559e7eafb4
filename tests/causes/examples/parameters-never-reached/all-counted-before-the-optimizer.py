import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
parameters = net.parameters()
print("parameters:", sum(p.numel() for p in parameters))
optimizer = torch.optim.Adam(parameters, lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()

# told at: parameters = net.parameters()
# fails: optimizer got an empty parameter list
