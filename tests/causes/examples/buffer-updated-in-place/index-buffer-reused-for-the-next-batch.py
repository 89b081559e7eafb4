import torch
from torch import nn

torch.manual_seed(0)
scores = nn.Linear(4, 6)
chosen = torch.empty(3, 1, dtype=torch.long)
losses = []
for _ in range(2):
    torch.randint(0, 6, (3, 1), out=chosen)
    losses.append(-scores(torch.randn(3, 4)).gather(1, chosen).mean())
torch.stack(losses).sum().backward()

# told at: losses.append(-scores(torch.randn(3, 4)).gather(1, chosen).mean())
# fails: modified by an inplace operation
