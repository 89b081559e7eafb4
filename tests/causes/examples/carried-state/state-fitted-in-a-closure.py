import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.RNNCell(2, 6), nn.Linear(6, 1)
optimizer = torch.optim.LBFGS([*cell.parameters(), *head.parameters()], max_iter=3)
state = torch.zeros(5, 6)
for x, y in zip(torch.randn(3, 5, 2), torch.randn(3, 5, 1), strict=True):

    def closure():
        global new
        optimizer.zero_grad()
        new = cell(x, state)
        loss = (head(new) - y).pow(2).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    state = new

# told at: state = new
# fails: backward through the graph a second time
