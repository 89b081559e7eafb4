import torch
from torch import nn

torch.manual_seed(0)
conv1, conv2 = nn.Conv1d(2, 4, 3, padding=1), nn.Conv1d(4, 2, 3, padding=1)
x = torch.randn(1, 2, 9)
out = conv2(torch.relu_(conv1(x)))
out += x
out *= 2
out.clamp_(-5, 5)
out.pow(2).mean().backward()
