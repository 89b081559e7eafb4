import torch
from torch import nn


class Angles(nn.Module):
    """Learned frequencies; the angles of a length are kept for the next time."""

    def __init__(self, width):
        super().__init__()
        self.frequencies = nn.Parameter(torch.linspace(0.1, 1.0, width))
        self.kept = {}

    def forward(self, length, keep=True):
        if keep and length in self.kept:
            return self.kept[length]
        angles = torch.outer(torch.arange(float(length)), self.frequencies).sin()
        if keep:
            self.kept[length] = angles
        return angles


torch.manual_seed(0)
angles, head = Angles(4), nn.Linear(4, 1)
optimizer = torch.optim.SGD([*angles.parameters(), *head.parameters()], lr=0.1)
for _ in range(3):
    x, y = torch.randn(3, 6, 4), torch.randn(3, 6, 1)
    loss = (head(x + angles(6)) - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.kept[length] = angles
# fails: backward through the graph a second time
