"""All optimizers step in every iteration; one network learns from the tenth on."""

import torch
from torch import nn

torch.manual_seed(0)
generator, discriminator = nn.Linear(2, 4), nn.Linear(4, 1)
optimizers = [torch.optim.SGD(m.parameters(), lr=0.01) for m in (generator, discriminator)]
for step in range(14):
    noise = torch.randn(8, 2)
    loss = discriminator(generator(noise).detach()).mean() - discriminator(torch.randn(8, 4)).mean()
    if step >= 10:
        loss = loss - discriminator(generator(noise)).mean()
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
