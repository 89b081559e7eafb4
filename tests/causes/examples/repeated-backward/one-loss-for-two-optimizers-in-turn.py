import torch
from torch import nn

torch.manual_seed(0)
body, head = nn.Linear(4, 4), nn.Linear(4, 1)
first = torch.optim.SGD(head.parameters(), lr=0.05)
second = torch.optim.Adam(body.parameters())
for step in range(8):
    loss = (head(body(torch.randn(16, 4)).tanh().clone()) - 1).pow(2).mean()
    first.zero_grad()
    loss.backward(retain_graph=True)
    second.zero_grad()
    loss.backward(inputs=list(body.parameters()))
    first.step()
    second.step()
