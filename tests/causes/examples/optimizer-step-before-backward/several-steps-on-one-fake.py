"""The generator takes three steps in a row, all of them on the image that was made before the first."""

import torch
from torch import nn
from torch.nn.functional import softplus

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
critic = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
g_opt = torch.optim.Adam(generator.parameters(), lr=1e-3)
c_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for epoch in range(2):
    for _ in range(3):
        noise = torch.randn(6, 3)
        fake = generator(noise)
        c_opt.zero_grad()
        loss = softplus(critic(fake.detach())).mean() + softplus(-critic(torch.randn(6, 4))).mean()
        loss.backward()
        c_opt.step()
    for _ in range(3):
        g_opt.zero_grad()
        score = critic(fake)
        softplus(-score).mean().backward(retain_graph=True)
        g_opt.step()

# told at: g_opt.step()
# fails: modified by an inplace operation
