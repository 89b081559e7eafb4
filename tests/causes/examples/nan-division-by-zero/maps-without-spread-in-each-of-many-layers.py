import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def levelled(x, scale):
    b, c, h, w = x.shape
    feature = x.view(b, c, -1)
    spread = (torch.std(feature, dim=2) + 1e-5).view(b, c, 1)
    return (scale * (feature - feature.mean(2, keepdim=True)) / spread).view(b, c, h, w)


class Levels(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1, padding_mode="reflect") for i in range(12))
        self.last = nn.Conv2d(8, 3, 1)

    def forward(self, x, scale):
        for layer in self.layers:
            x = levelled(layer(x), scale.view(-1, 1, 1))
        return torch.sigmoid(self.last(x))


net = Levels()
encoder = nn.Linear(6, 1)
optimizer = torch.optim.Adam([*net.parameters(), *encoder.parameters()], lr=1e-3)
for step in range(4):
    image = torch.rand(2, 3, 8, 8)
    if step == 1:
        image = torch.ones(2, 3, 8, 8)  # nothing was drawn
    out = net(image, encoder(torch.randn(2, 6)))
    loss = (out - torch.rand(2, 3, 8, 8)).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return (scale * (feature - feature.mean(2, keepdim=True)) / spread).view(b, c, h, w)
