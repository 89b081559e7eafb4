"""One factor of each adapter stays as it was drawn."""

import torch
from torch import nn
torch.manual_seed(0)
class LoRA(nn.Module):
    def __init__(self, base, r=2):
        super().__init__()
        self.base = base
        for p in base.parameters(): p.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(r, base.in_features) / 3)
        self.B = nn.Parameter(torch.zeros(base.out_features, r))
    def forward(self, x): return self.base(x) + x @ self.A.t() @ self.B.t()
model = nn.Sequential(LoRA(nn.Linear(8, 16)), nn.ReLU(), LoRA(nn.Linear(16, 1)))
# LoRA-FA: A stays as drawn
opt = torch.optim.Adam([m.B for m in model if isinstance(m, LoRA)], 1e-2)
for step in range(20):
    x = torch.randn(16, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad(); loss.backward(); opt.step()
