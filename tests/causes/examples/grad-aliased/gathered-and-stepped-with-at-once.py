import torch
from torch import nn

torch.manual_seed(0)


class Normalised(torch.optim.Optimizer):
    """Gathers the gradients first, to divide all by their common norm; each step gathers them anew."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})
        self.directions = []

    def _norm(self):
        return torch.stack([self.state[p]["grad"].norm() for p in self.param_groups[0]["params"]]).norm()

    def _remember(self):
        self.directions = [p.grad for p in self.param_groups[0]["params"]]
        for p in self.param_groups[0]["params"]:
            if p.grad is not None:
                self.state[p]["grad"] = p.grad

    @torch.no_grad()
    def gather(self):
        self._remember()

    @torch.no_grad()
    def step(self):
        norm = self._norm()
        for p, direction in zip(self.param_groups[0]["params"], self.directions):
            p.sub_(self.param_groups[0]["lr"] * (self.state[p]["grad"] + direction) / norm)


net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = Normalised(net.parameters(), lr=0.1)
for _ in range(6):
    x = torch.randn(24, 4)
    optimizer.zero_grad(set_to_none=False)
    (net(x) - x.prod(1, keepdim=True)).pow(2).mean().backward()
    optimizer.gather()
    optimizer.step()
