import torch
from torch import nn


class Signed(torch.optim.Optimizer):
    """Matrices move by the sign of their momentum; an AdamW of its own takes the rest."""

    def __init__(self, params, lr):
        params = list(params)
        self._adam = torch.optim.AdamW([p for p in params if p.ndim < 2], lr=lr)
        super().__init__([p for p in params if p.ndim > 1], {"lr": lr})

    def zero_grad(self, set_to_none=True):
        super().zero_grad(set_to_none)
        self._adam.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                momentum.lerp_(p.grad, 0.1)
                p.add_(momentum.sign(), alpha=-group["lr"])
        self._adam.step()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = Signed(model.parameters(), lr=0.001)
for _ in range(8):
    x = torch.randn(16, 6)
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
