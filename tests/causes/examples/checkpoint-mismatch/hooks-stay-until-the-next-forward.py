import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Adapted(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.base = nn.Linear(width, width).requires_grad_(False)
        self.down, self.up = nn.Linear(width, 2, bias=False), nn.Linear(2, width, bias=False)

    def forward(self, x, start=None):
        out = self.base(x)
        return out if start is None else out + self.up(self.down(x)) * (torch.arange(x.shape[1]) >= start)[:, None]


layers = nn.ModuleList(Adapted(8) for _ in range(2))
head = nn.Linear(8, 5).requires_grad_(False)
optimizer = torch.optim.Adam([p for p in layers.parameters() if p.requires_grad], lr=0.01)


kept = []


def forward(x, start):
    for hook in kept:
        hook.remove()
    kept[:] = [
        layer.register_forward_pre_hook(lambda module, args, kwargs: (args, {"start": start}), with_kwargs=True)
        for layer in layers
    ]
    for layer in layers:
        x = checkpoint(layer, x, use_reentrant=True)
    return head(x)


for _ in range(6):
    x, y = torch.randn(4, 6, 8, requires_grad=True), torch.randint(0, 5, (24,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(forward(x, 3).reshape(24, 5), y).backward()
    optimizer.step()
