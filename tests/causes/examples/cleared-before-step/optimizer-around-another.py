import torch
from torch import nn


class Sharpness(torch.optim.Optimizer):
    """Two gradients for one step of the optimizer inside; it clears them when it is done."""

    def __init__(self, parameters, rho, lr):
        super().__init__(parameters, {"rho": rho})
        self.base = torch.optim.SGD(self.param_groups, lr=lr)

    def step(self, closure):
        held = [p for group in self.param_groups for p in group["params"]]
        with torch.no_grad():
            away = [0.05 * p.grad / (p.grad.norm() + 1e-12) for p in held]
            for p, e in zip(held, away, strict=True):
                p.add_(e)
        self.zero_grad()
        closure().backward()
        with torch.no_grad():
            for p, e in zip(held, away, strict=True):
                p.sub_(e)
        self.base.step()
        self.zero_grad()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = Sharpness(model.parameters(), 0.05, 0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    y = x.sum(1, keepdim=True)

    def loss_of(x=x, y=y):
        return (model(x) - y).pow(2).mean()

    loss_of().backward()
    optimizer.step(loss_of)
