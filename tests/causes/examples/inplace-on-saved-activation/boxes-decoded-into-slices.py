import torch
from torch import nn

torch.manual_seed(0)
head = nn.Linear(6, 4)
grid, anchors = torch.arange(5.0).unsqueeze(1), torch.ones(5, 2)


def decode(raw):
    y = raw.sigmoid()
    y[..., :2] = y[..., :2] * 2 - 0.5 + grid
    return y


boxes = decode(head(torch.randn(5, 6)))
loss = (boxes[..., 2:] - anchors).pow(2).sum() + boxes[..., :2].sum()
loss.backward()

# told at: y[..., :2] = y[..., :2] * 2 - 0.5 + grid
# fails: modified by an inplace operation
