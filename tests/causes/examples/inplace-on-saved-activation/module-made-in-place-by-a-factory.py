from functools import partial

import torch
from torch import nn

ACTIVATIONS = {"relu": partial(nn.ReLU, inplace=True), "gelu": nn.GELU}


def mlp(width, act):
    return nn.Sequential(nn.Linear(3, width), nn.Softmax(-1), ACTIVATIONS[act](), nn.Linear(width, 1))


torch.manual_seed(0)
mlp(8, "relu")(torch.randn(2, 3)).sum().backward()

# told at: ACTIVATIONS = {"relu": partial(nn.ReLU, inplace=True), "gelu": nn.GELU}
# fails: modified by an inplace operation
