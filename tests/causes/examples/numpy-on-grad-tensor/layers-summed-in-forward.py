import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


class Propagation(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.layers = layers
        self.weight = nn.Parameter(torch.randn(5, 5) * 0.1)

    def forward(self, items):
        seen = [items]
        for _ in range(self.layers):
            items = torch.tanh(self.weight @ items)
            seen.append(items)
        items = np.sum(seen, 0)
        return items


table = nn.Embedding(5, 3)
propagate = Propagation()
opt = torch.optim.Adam([*table.parameters(), *propagate.parameters()], lr=0.1)
for _ in range(3):
    loss = (propagate(table.weight) - 1).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
# told at: items = np.sum(seen, 0)
# fails: Can't call numpy() on Tensor that requires grad
