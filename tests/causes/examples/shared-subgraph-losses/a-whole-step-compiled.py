import torch
from torch import nn


def step(critic, painter, noise):
    critic_optimizer.zero_grad()
    painting = painter(noise)
    critic(painting.detach()).mean().backward()
    critic_optimizer.step()
    painter_optimizer.zero_grad()
    (-critic(painting)).mean().backward()
    painter_optimizer.step()


torch.manual_seed(0)
painter = nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 3))
critic = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
painter_optimizer = torch.optim.SGD(painter.parameters(), lr=0.01)
critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
compiled = torch.compile(step, backend="aot_eager")
for _ in range(2):
    compiled(critic, painter, torch.randn(5, 2))

# told at: compiled = torch.compile(step, backend="aot_eager")
# fails: backward through the graph a second time
