"""The critic tells all samples apart by more than its margin, in the whole run: it waits for a better generator."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
generator, critic = nn.Linear(4, 2), nn.Linear(2, 1)
nn.init.constant_(critic.weight, 8.0)
nn.init.constant_(critic.bias, -8.0)
nn.init.constant_(generator.bias, -1.0)
own = torch.optim.Adam(generator.parameters(), lr=1e-3)
its = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(12):
    real, fake = 2 + 0.1 * torch.randn(16, 2), generator(0.1 * torch.randn(16, 4))
    loss = F.relu(1 - critic(real)).mean() + F.relu(1 + critic(fake.detach())).mean()
    its.zero_grad()
    loss.backward()
    its.step()
    own.zero_grad()
    (-critic(fake).mean()).backward()
    own.step()
