import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self, width, count, per_token):
        super().__init__()
        self.per_token = per_token
        self.gate = nn.Linear(width, count, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width)) for _ in range(count)
        )

    def forward(self, x):
        scores = F.softmax(self.gate(x), dim=-1)
        weight, chosen = torch.topk(scores, self.per_token, dim=-1)
        weight = weight / (weight.sum(dim=-1, keepdim=True) + 1e-20)
        out = torch.zeros_like(x)
        for n, expert in enumerate(self.experts):
            rows, slot = (chosen == n).nonzero(as_tuple=True)
            out = out.index_add(0, rows, expert(x[rows]) * weight[rows, slot, None])
        load = F.one_hot(chosen, scores.size(-1)).float().mean((0, 1))
        self.aux = 0.01 * (load * scores.mean(0)).sum() * scores.size(-1)
        return x + out


torch.manual_seed(0)
moe = Experts(16, 4, 2)
model = nn.Sequential(nn.Linear(8, 16), moe, nn.Linear(16, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(24):
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    loss = F.cross_entropy(model(x), y) + moe.aux
    (loss / 2).backward()
    if step % 2:
        optimizer.step()
        optimizer.zero_grad()
