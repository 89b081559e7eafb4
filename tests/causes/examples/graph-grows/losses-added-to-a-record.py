import torch
from torch import nn


class Record:
    def __init__(self):
        self.losses = []

    def note(self, value):
        self.losses += [value]


torch.manual_seed(0)
cell, readout = nn.RNNCell(2, 4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*cell.parameters(), *readout.parameters()], lr=0.01)
record = Record()
for step in range(104):
    state = torch.zeros(8, 4)
    for _ in range(50):
        state = cell(torch.randn(8, 2), state)
    loss = readout(state).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    record.note(loss)

# told at: loss = readout(state).pow(2).mean()
