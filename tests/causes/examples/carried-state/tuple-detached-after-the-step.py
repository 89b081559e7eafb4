import torch
from torch import nn

torch.manual_seed(0)
lstm, head = nn.LSTM(3, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*lstm.parameters(), *head.parameters()])
state = None
for _ in range(3):
    out, state = lstm(torch.randn(5, 2, 3), state)
    loss = head(out).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    state = tuple(s.detach() for s in state)
