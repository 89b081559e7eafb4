import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Refiner(nn.Module):
    """One block applied several times, each guess scored (deep supervision)."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 12)
        self.block = nn.Sequential(nn.Linear(12, 12), nn.Tanh())
        self.read = nn.Linear(12, 2)

    def start(self, x):
        return torch.tanh(self.embed(x))

    def refine(self, h):
        return h + self.block(h)


net = Refiner()
opt = torch.optim.Adam(net.parameters(), 3e-3)
for it in range(4):
    x = torch.randn(9, 4)
    y = torch.stack([x.sum(1), x.prod(1)], 1)
    opt.zero_grad()
    h = net.start(x)
    total = 0.0
    for depth in range(3):
        h = net.refine(h)
        loss = F.mse_loss(net.read(h), y)
        loss.backward()
        total += loss.item()
    opt.step()
    print(it, total)

# told at: h = net.refine(h)
# fails: backward through the graph a second time
