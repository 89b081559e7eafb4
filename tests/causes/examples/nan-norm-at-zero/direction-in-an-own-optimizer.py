import torch
from torch import nn


class Normalised(torch.optim.Optimizer):
    """Steps of a given length along each parameter's gradient, taken by SGD."""

    def __init__(self, parameters, length):
        super().__init__(parameters, {"length": length})
        self.base = torch.optim.SGD(self.param_groups, lr=length)

    @staticmethod
    def direction(g):
        return g / g.norm()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad = self.direction(p.grad)
        self.base.step()
        self.zero_grad()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
with torch.no_grad():
    model[0].bias.fill_(-20.0)
optimizer = Normalised(model.parameters(), 0.01)
for _ in range(8):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    optimizer.step()

# told at: return g / g.norm()
