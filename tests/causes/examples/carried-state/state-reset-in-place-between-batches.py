import torch
from torch import nn


class Leak(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("level", torch.zeros(2, size))

    def reset(self):
        self.level.zero_()

    def forward(self, inputs):
        for x in inputs:
            self.level = self.level * self.rate + x
        return self.level


torch.manual_seed(0)
encoder, leak = nn.Linear(4, 3), Leak(3)
optimizer = torch.optim.Adam([*encoder.parameters(), *leak.parameters()], lr=0.01)
for _ in range(4):
    leak.reset()
    optimizer.zero_grad()
    leak(encoder(torch.randn(5, 2, 4))).square().mean().backward()
    optimizer.step()

# told at: self.level.zero_()
# fails: Trying to backward through the graph a second time
