from typing import NamedTuple

import torch
from torch import nn

torch.manual_seed(0)


class State(NamedTuple):
    hidden: torch.Tensor
    cell: torch.Tensor
    seen: int


cell, head = nn.LSTMCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)


def advance(x, state):
    h, c = cell(x, (state.hidden, state.cell))
    return head(h), State(h, c, state.seen + 1)


def train():
    state = State(torch.zeros(3, 8), torch.zeros(3, 8), 0)
    for x in torch.randn(4, 3, 4):
        y, state = advance(x, state)
        loss = y.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train()

# told at: y, state = advance(x, state)
# fails: backward through the graph a second time
