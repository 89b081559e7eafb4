import torch
from torch import nn

torch.manual_seed(0)
cell, head = nn.GRUCell(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(5):
    words, hidden = torch.randn(4, 5, 3), {}
    for i in range(6):
        hidden[i] = torch.zeros(4, 6, requires_grad=True)
    for i in range(5):
        hidden[i + 1][:, :] = cell(words[:, i], hidden[i])
    loss = head(hidden[5]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: hidden[i + 1][:, :] = cell(words[:, i], hidden[i])
# fails: a leaf Variable that requires grad is being used in an in-place operation
