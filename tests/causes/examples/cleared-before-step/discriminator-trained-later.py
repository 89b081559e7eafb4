import torch
from torch import nn

torch.manual_seed(0)
generator, discriminator = nn.Linear(4, 4), nn.Linear(4, 1)
generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.01)
discriminator_optimizer = torch.optim.SGD(discriminator.parameters(), lr=0.01)
for i in range(24):
    generator_optimizer.zero_grad()
    fake = generator(torch.randn(8, 4))
    nn.functional.softplus(-discriminator(fake)).mean().backward()
    generator_optimizer.step()
    discriminator_optimizer.zero_grad()  # what the generator's loss has left
    if i >= 16:
        scores = discriminator(torch.randn(8, 4)) - discriminator(fake.detach())
        nn.functional.softplus(-scores).mean().backward()
    discriminator_optimizer.step()
