import torch
from torch import nn

torch.manual_seed(0)
cell, head, attend = nn.GRUCell(3, 6), nn.Linear(12, 1), nn.Linear(6, 6)
parameters = [*cell.parameters(), *head.parameters(), *attend.parameters()]
optimizer = torch.optim.Adam(parameters, lr=0.01)
for step in range(5):
    words = torch.randn(4, 5, 3)
    states = {0: {"h": torch.zeros(4, 6)}}
    table = torch.zeros(4, 5, 6, requires_grad=True)
    for i in range(5):
        states[i + 1] = {"h": cell(words[:, i], states[i]["h"])}
        table[:, i, :] = states[i + 1]["h"]
    query = attend(states[5]["h"])
    weight = torch.softmax(torch.einsum("bth,bh->bt", table, query), 1)
    loss = head(torch.cat([query, torch.einsum("bt,bth->bh", weight, table)], 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: table[:, i, :] = states[i + 1]["h"]
# fails: a leaf Variable that requires grad is being used in an in-place operation
