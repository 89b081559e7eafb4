import torch
x = torch.ones(2)
for i in range(2):
    x = x * 2
    y = x.sum()