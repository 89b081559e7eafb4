import torch
from torch import nn

torch.manual_seed(0)


def layer(*size):
    return nn.utils.spectral_norm(nn.Linear(*size))


generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
critic = nn.Sequential(layer(4, 6), nn.ReLU(), layer(6, 1))
generator_optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)


def update(for_generator, for_critic):
    for_generator.backward(inputs=list(generator.parameters()))
    generator_optimizer.step()
    for_critic.backward()
    critic_optimizer.step()


for _ in range(3):
    generator_optimizer.zero_grad()
    critic_optimizer.zero_grad()
    fake = generator(torch.randn(5, 3))
    for_critic = critic(fake.detach()).mean() - critic(torch.randn(5, 4)).mean()
    update(-critic(fake).mean(), for_critic)
