import torch
from torch import nn

torch.manual_seed(0)


def layer(*size):
    return nn.utils.spectral_norm(nn.Linear(*size))


class Painter:
    def __init__(self):
        self.generator = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
        self.critic = nn.Sequential(layer(4, 6), nn.ReLU(), layer(6, 1))
        self.generator_optimizer = torch.optim.SGD(self.generator.parameters(), lr=0.1)
        self.critic_optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def losses(self, noise, real):
        self.generator_optimizer.zero_grad()
        self.critic_optimizer.zero_grad()
        fake = self.generator(noise)
        for_critic = self.critic(fake.detach()).mean() - self.critic(real).mean()
        return fake, -self.critic(fake).mean(), for_critic

    def update(self, for_generator, for_critic):
        for_critic.backward()
        self.critic_optimizer.step()
        for_generator.backward()
        self.generator_optimizer.step()


painter = Painter()
for _ in range(3):
    fake, for_generator, for_critic = painter.losses(torch.randn(5, 3), torch.randn(5, 4))
    painter.update(for_generator, for_critic)
# told at: self.critic_optimizer.step()
# fails: modified by an inplace operation
