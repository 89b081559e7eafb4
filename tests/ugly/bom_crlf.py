"""Doc."""
import torch

def f(x):
    return x.sum() * 2

print(f(torch.ones(2)))
