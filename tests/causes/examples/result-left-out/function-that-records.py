import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
STATS = {}


class Record(torch.autograd.Function):
    """Keeps the mean and the deviation of an activation."""

    @staticmethod
    def forward(ctx, x, name):
        STATS.setdefault(name, []).append((x.mean().item(), x.std().item()))
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 16), nn.Linear(16, 1)

    def forward(self, x):
        h = self.a(x).relu()
        Record.apply(h, "hidden")
        return self.b(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for _ in range(25):
    x = torch.randn(16, 6)
    loss = F.mse_loss(net(x), x.sum(1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(len(STATS["hidden"]), loss.item())
