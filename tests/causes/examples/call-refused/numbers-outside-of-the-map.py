import torch
from torch.func import grad, vmap

torch.manual_seed(0)
weight = torch.randn(3)


def clipped(weight, row):
    gradient = grad(lambda w: (w * row).sum().square())(weight)
    return gradient * (1.0 / gradient.norm()).clamp(max=1.0)


each = vmap(clipped, in_dims=(None, 0))(weight, torch.randn(4, 3))
print([round(row.norm().item(), 3) for row in each], float(each.mean()))
