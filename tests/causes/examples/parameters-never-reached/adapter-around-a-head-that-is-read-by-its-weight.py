import torch
from torch import nn
from torch.nn import functional as F


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down, self.up = nn.Linear(16, 2, bias=False), nn.Linear(2, base.out_features, bias=False)

    @property
    def weight(self):
        return self.base.weight

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 16)
        self.mix = Adapted(nn.Linear(16, 16))
        self.head = Adapted(nn.Linear(16, 12, bias=False))

    def forward(self, ids, labels):
        hidden = torch.tanh(self.mix(self.embed(ids)))
        return F.cross_entropy(hidden @ self.head.weight.t(), labels)


torch.manual_seed(0)
model = Model()
for module in model.modules():
    if hasattr(module, "base"):
        module.base.requires_grad_(False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
for _ in range(8):
    ids = torch.randint(0, 12, (32,))
    optimizer.zero_grad()
    model(ids, (ids + 1) % 12).backward()
    optimizer.step()

# told at: return F.cross_entropy(hidden @ self.head.weight.t(), labels)
