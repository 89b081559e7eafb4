"""A critic steps three times for one step of the generator, and is cleared once for all three."""
import torch
from torch import nn

torch.manual_seed(0)
generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=0.01)
c_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(8):
    c_optimizer.zero_grad()
    for batch in torch.randn(3, 8, 3):
        fake = generator(torch.randn(8, 2)).detach()
        loss = critic(fake).mean() - critic(batch).mean()
        loss.backward()
        c_optimizer.step()
    g_optimizer.zero_grad()
    (-critic(generator(torch.randn(8, 2)))).mean().backward()
    g_optimizer.step()

# told at: loss.backward()
