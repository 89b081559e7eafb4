import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Coupling(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d // 2, 16), nn.ReLU(), nn.Linear(16, d))

    def forward(self, x, logdet):
        a, b = x.chunk(2, 1)
        s, t = self.net(a).chunk(2, 1)
        s = torch.tanh(s)
        b *= s.exp()
        b += t
        return torch.cat([b, a], 1), logdet + s.sum(1)


class Flow(nn.Module):
    def __init__(self, d=4, depth=3):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(d) for _ in range(depth))

    def log_prob(self, x):
        logdet = torch.zeros(len(x))
        for s in self.steps:
            x, logdet = s(x, logdet)
        return -0.5 * x.pow(2).sum(1) + logdet


flow = Flow()
opt = torch.optim.Adam(flow.parameters(), 1e-3)
for i in range(3):
    loss = -flow.log_prob(torch.randn(8, 4)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(i, loss.item())

# told at: b *= s.exp()
# fails: A view was created in no_grad mode and is being modified inplace
