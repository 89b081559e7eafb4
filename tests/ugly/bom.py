import torch
x = torch.ones(2); y = x.sum()
if y > 1:
    x = x + y
