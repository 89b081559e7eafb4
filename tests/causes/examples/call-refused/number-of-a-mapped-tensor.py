import torch
from torch.func import vmap

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(3))


def gated(row):
    score = (weight * row).sum()
    return score * float(score > 0)


vmap(gated)(torch.randn(4, 3)).sum().backward()

# told at: return score * float(score > 0)
# fails: It looks like you're calling .item() on a Tensor
