import torch
from torch import nn


class Curved(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                curvature = self.curvature(p, p.grad)
                p.data.sub_(group["lr"] * p.grad.data / (curvature.abs() + 1))

    def curvature(self, p, slope):
        along = torch.sum(slope * torch.ones_like(slope))
        return torch.autograd.grad(along, p, retain_graph=True)[0]


model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1), nn.Tanh())
optimizer = Curved(model.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 3)).square().mean()
    slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
    for p, slope in zip(model.parameters(), slopes):
        p.grad = slope
    optimizer.step()
