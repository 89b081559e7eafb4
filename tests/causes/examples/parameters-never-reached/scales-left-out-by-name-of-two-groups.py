import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(width), nn.Linear(width, width)
        self.scale = nn.Parameter(torch.full((width,), 0.1))

    def forward(self, x):
        return x + self.scale * self.map(self.norm(x)).relu()


class Tide(nn.Module):
    def __init__(self):
        super().__init__()
        self.unit = nn.Parameter(torch.ones(4))
        self.read, self.mixers = nn.Linear(4, 12), nn.Sequential(Mixer(12), Mixer(12))
        self.level = nn.Linear(12, 1)

    def forward(self, x):
        return self.level(self.mixers(self.read(x * self.unit)))


def layers(net):
    return [m for m in net.modules() if not list(m.children())]


torch.manual_seed(0)
net = Tide()
decayed = [p for n, p in net.named_parameters() if not n.endswith(("scale", "unit")) and p.ndim > 1]
others = [p for n, p in net.named_parameters() if not n.endswith(("scale", "unit")) and p.ndim < 2]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.01}, {"params": others}], lr=5e-3)
for _ in range(14):
    x = torch.randn(32, 4)
    loss = nn.functional.smooth_l1_loss(net(x).squeeze(1), x.sum(1).sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())

