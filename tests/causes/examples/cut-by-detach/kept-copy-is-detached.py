import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(5, 2)
        self.last = None

    def forward(self, x):
        out = self.net(x)
        self.last = out.detach()
        return out


encoder = Encoder()
(encoder(torch.randn(4, 5)) - 1.0).square().mean().backward()
print(encoder.last.requires_grad)
