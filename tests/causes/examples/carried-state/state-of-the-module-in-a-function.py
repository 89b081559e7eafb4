import torch
from torch import nn

cell, head = nn.LSTMCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()])
state = (torch.zeros(1, 8), torch.zeros(1, 8))


def update(x):
    global state
    state = cell(x, state)
    loss = head(state[0]).pow(2).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


for _ in range(3):
    update(torch.randn(1, 4))

# told at: state = cell(x, state)
# fails: Trying to backward through the graph a second time
