import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.out = nn.Linear(channels, 1)
        self.register_buffer("gain", torch.ones(channels).requires_grad_())
        self.register_buffer("shift", torch.zeros(channels, requires_grad=True), persistent=False)

    def forward(self, x):
        return self.out((x * self.gain + self.shift).tanh())


torch.manual_seed(0)
mixer = Mixer(5)
optimizer = torch.optim.Adam(mixer.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(16, 5)
    loss = (mixer(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.register_buffer("gain", torch.ones(channels).requires_grad_())
