"""The failure comes while `torch.compile` traces the backward: the lines are told from a run without it."""

import torch


@torch.compile(backend="aot_eager")
def score(x, w):
    gate = torch.sigmoid(x @ w)
    twice = gate * 2
    gate += 1
    return (twice + gate).sum()


torch.manual_seed(0)
w = torch.randn(4, 4, requires_grad=True)
score(torch.randn(2, 4), w).backward()

# told at: gate += 1
# fails: modified by an inplace operation
