import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(inplace=True), nn.Linear(4, 1))
loss = net(torch.randn(8, 3)).mean() - net(torch.randn(8, 3)).mean()
loss.backward()
