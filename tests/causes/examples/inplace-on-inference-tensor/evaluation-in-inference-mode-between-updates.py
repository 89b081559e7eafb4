import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    optimizer.zero_grad()
    net.train()(torch.randn(6, 3)).pow(2).mean().backward()
    optimizer.step()
    with torch.inference_mode():
        score = net.eval()(torch.randn(6, 3)).mean().item()
