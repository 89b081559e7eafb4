"""A weight is cast behind `Parameter(...)`: the attribute is a plain tensor, and has no gradient to look at."""

import torch
from torch import nn

torch.manual_seed(0)


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(torch.randn(4, 3)).double()
        self.shift = nn.Parameter(torch.zeros(3).double())

    def forward(self, x):
        return x @ self.mix + self.shift


mixer = Mixer()
optimizer = torch.optim.SGD(mixer.parameters(), lr=0.1)
for _ in range(3):
    loss = mixer(torch.randn(6, 4).double()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    print(f"slope of the mix {mixer.mix.grad.norm():.3f}")
    optimizer.step()

# told at: self.mix = nn.Parameter(torch.randn(4, 3)).double()
# fails: 'NoneType' object has no attribute 'norm'
