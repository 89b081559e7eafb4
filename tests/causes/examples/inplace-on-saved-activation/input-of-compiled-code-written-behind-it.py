"""Eager PyTorch saves the result of `exp`; the compiled code saves its input and computes the result again."""

import torch


@torch.compile(backend="aot_eager_decomp_partition")
def growth(x):
    return (x * 2).exp().sum()


torch.manual_seed(0)
layer = torch.nn.Linear(4, 4)
hidden = layer(torch.randn(2, 4)).relu() * 1.5
loss = growth(hidden)
hidden += 1
loss.backward()

# told at: hidden += 1
# fails: modified by an inplace operation
