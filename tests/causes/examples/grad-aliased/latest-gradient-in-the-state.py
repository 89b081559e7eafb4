import torch
from torch import nn

torch.manual_seed(0)


class Friction(torch.optim.Optimizer):
    """Brakes where the gradient has hardly changed."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state, grad = self.state[p], p.grad
                latest = state["latest"] if state else torch.zeros_like(p)
                friction = torch.sigmoid((grad - latest).abs())
                p.sub_(group["lr"] * friction * grad)
                state["latest"] = grad


net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = Friction(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(24, 4)
    optimizer.zero_grad(set_to_none=False)
    (net(x) - x.prod(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()

# told at: state["latest"] = grad
