import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Meta:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.log_lr = nn.Parameter(torch.tensor(-2.0))
        self.opt = torch.optim.Adam([*self.net.parameters(), self.log_lr], 1e-3)

    def adapt(self, x, y, steps=2):
        w, b = self.net.weight, self.net.bias
        for _ in range(steps):
            inner = F.mse_loss(F.linear(x, w, b), y)
            gw, gb = torch.autograd.grad(inner, (w, b))
            w, b = w - self.log_lr.exp() * gw, b - self.log_lr.exp() * gb
        return w, b

    def step(self, tasks):
        self.opt.zero_grad()
        rate = self.log_lr.exp()
        total = 0.0
        for x, y in tasks:
            w, b = self.adapt(x, y)
            loss = F.mse_loss(F.linear(x, w, b), y) + 1e-3 * rate * rate
            loss.backward()
            total += loss.item()
        self.opt.step()
        return total


meta = Meta()
for it in range(3):
    print(it, meta.step([(torch.randn(5, 3), torch.randn(5, 1)) for _ in range(3)]))

# told at: rate = self.log_lr.exp()
# fails: backward through the graph a second time
