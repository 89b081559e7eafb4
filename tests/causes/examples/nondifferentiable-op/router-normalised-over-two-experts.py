import torch
import torch.nn.functional as F
from torch import nn


class Mixture(nn.Module):
    def __init__(self, width, experts, top):
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x):
        scores = F.softmax(self.router(x), dim=-1)
        weight, chosen = scores.topk(self.top, dim=-1)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-20)
        out = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            rows, slot = (chosen == n).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(x[rows]) * weight[rows, slot, None])
        return x + out


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), Mixture(16, 4, 2), nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(12):
    x = torch.randn(64, 8)
    y = torch.randint(0, 3, (64,))
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
