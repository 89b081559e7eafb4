import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Linear(4, 6), nn.Linear(6, 1)
x, y = torch.randn(8, 4), torch.randn(8, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.1)

hidden = encoder(x).tanh()
out = head(hidden)
loss = (out - y).pow(2).mean()
for _ in range(3):
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()

# told at: out = head(hidden)
# fails: modified by an inplace operation
