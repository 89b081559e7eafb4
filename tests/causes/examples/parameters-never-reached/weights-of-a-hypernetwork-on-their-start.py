import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Target(nn.Module):
    """A small network whose weights are its initial ones plus what the hypernetwork gives."""

    def __init__(self, i=8, o=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(o, i) / i**0.5)
        self.bias = nn.Parameter(torch.zeros(o))

    def forward(self, x, delta):
        w, b = delta[:-4].view_as(self.weight), delta[-4:]
        return F.linear(x, self.weight + w, self.bias + b)


target = Target()
hyper = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 4 * 8 + 4))
opt = torch.optim.Adam(hyper.parameters(), lr=1e-3)
for task in range(40):
    code = torch.randn(6)
    x = torch.randn(32, 8)
    y = (x[:, :4] * code[:4]).detach()
    loss = F.mse_loss(target(x, hyper(code)), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
