import torch
from torch import nn

# What the generator's loss leaves in the critic is to be cleared as well: in front of the critic's backward call.
torch.manual_seed(0)
generator, critic = nn.Linear(2, 2), nn.Linear(2, 1)
g_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
c_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
for iteration in range(12):
    fake = generator(torch.randn(8, 2)).detach()
    (critic(fake).mean() - critic(torch.randn(8, 2)).mean()).backward()
    c_optimizer.step()
    g_optimizer.zero_grad()
    if iteration % 4 == 0:
        (-critic(generator(torch.randn(8, 2))).mean()).backward()
        g_optimizer.step()

# told at: (critic(fake).mean() - critic(torch.randn(8, 2)).mean()).backward()
