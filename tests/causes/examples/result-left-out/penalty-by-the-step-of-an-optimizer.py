"""The step of this optimizer takes the penalty's part by a soft threshold; the objective with it is printed."""

import torch
from torch import nn
from torch.nn import functional as F


class Proximal(torch.optim.SGD):
    def __init__(self, parameters, lr, rate):
        super().__init__(parameters, lr=lr)
        self.rate = rate

    @torch.no_grad()
    def step(self, closure=None):
        super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                p.copy_(F.softshrink(p, group["lr"] * self.rate))


torch.manual_seed(0)
net = nn.Linear(20, 1, bias=False)
optimizer = Proximal(net.parameters(), 0.05, 0.1)
for _ in range(12):
    x = torch.randn(32, 20)
    loss = F.mse_loss(net(x), x[:, :2].sum(1, keepdim=True))
    objective = loss + 0.1 * net.weight.abs().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.3f} {objective.item():.3f}")
