import torch
from torch import nn

torch.manual_seed(0)
encoder, scorer = nn.Linear(4, 4), nn.Linear(4, 1)
slow = torch.optim.SGD(encoder.parameters(), lr=0.01)
fast = torch.optim.SGD(scorer.parameters(), lr=0.05)
for _ in range(10):
    x = torch.randn(16, 4)
    loss = (scorer(encoder(x).tanh()) - x.sum(1, keepdim=True)).pow(2).mean()
    slow.zero_grad()
    slow.zero_grad()
    loss.backward()
    slow.step()
    fast.step()
print("trained")

# told at: loss.backward()
