"""Two optimizers as well, and the layers in a plain list are given to one of them by hand."""

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits as bce


class Generator(nn.Module):
    def __init__(self, width=16, depth=3):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.blocks = [nn.Linear(width, width) for _ in range(depth)]
        self.last = nn.Linear(width, 2)

    def forward(self, z):
        h = self.first(z).relu()
        for block in self.blocks:
            h = h + block(h).relu()
        return self.last(h)


torch.manual_seed(0)
generator = Generator()
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
inner = [p for block in generator.blocks for p in block.parameters()]
optimizer = torch.optim.Adam([*generator.parameters(), *inner], lr=1e-3)
for _ in range(14):
    real = torch.randn(32, 2) * 0.5 + 1
    fake = generator(torch.randn(32, 4))
    ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)
    critic_optimizer.zero_grad()
    (bce(critic(real), ones) + bce(critic(fake.detach()), zeros)).backward()
    critic_optimizer.step()
    optimizer.zero_grad()
    bce(critic(fake), ones).backward()
    optimizer.step()
