import torch
from torch import nn

torch.manual_seed(0)
position = torch.randn(7, 4)
past, future = nn.Linear(4, 4), nn.Linear(4, 4)


def attend(tokens, layer):
    tokens.add_(position)
    return layer(tokens)


code = nn.Linear(3, 4)(torch.randn(7, 3))
loss = attend(code, past).mean() - attend(code, future).mean()
loss.backward()

# told at: tokens.add_(position)
# fails: modified by an inplace operation
