import functools

import torch
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
lean = functools.partial(checkpoint, use_reentrant=False)


class Copies:
    def __init__(self):
        self.count = 0

    def __call__(self, h):
        self.count += 1
        return second(h.repeat(self.count, 1)).tanh().sum(0, keepdim=True)


copies = Copies()
h = checkpoint(first, torch.randn(2, 4), use_reentrant=False)
h = lean(copies, h)
h.sum().backward()

# told at: h = lean(copies, h)
# fails: different metadata than during the forward pass
