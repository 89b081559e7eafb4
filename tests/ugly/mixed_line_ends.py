import torch
x = torch.ones(2)
y = x * 2
if True:
    z = (y +
         x)
    print(z)
