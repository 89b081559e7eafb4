"""The mask leaves out nothing where it would leave out everything; the loss leaves that sequence out."""

import torch
from torch import nn

torch.manual_seed(0)
attention, head = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*attention.parameters(), *head.parameters()], lr=0.1)
lengths = torch.tensor([6, 0, 3, 5])
pad = torch.arange(6)[None] >= lengths[:, None]
pad[lengths == 0] = False
for _ in range(5):
    x = torch.randn(4, 6, 16)
    out, weights = attention(x, x, x, key_padding_mask=pad)
    loss = (head(out.mean(1)).squeeze(-1) - 1)[lengths > 0].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
