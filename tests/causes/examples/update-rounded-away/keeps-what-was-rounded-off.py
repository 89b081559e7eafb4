"""An optimizer of the program's own that adds what was rounded off to the next update."""

import torch
from torch import nn


class Compensated(torch.optim.SGD):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                lost = self.state[p].setdefault("lost", torch.zeros_like(p))
                lost.sub_(p.grad, alpha=group["lr"])
                before = p.clone()
                p.add_(lost)
                lost.sub_(p - before)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1)).to(torch.bfloat16)
optimizer = Compensated(model.parameters(), lr=1e-4)
for _ in range(12):
    x = torch.randn(64, 32, dtype=torch.bfloat16)
    loss = (model(x) - x[:, :1]).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
