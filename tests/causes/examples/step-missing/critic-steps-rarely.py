import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(2, 1)
actor_optimizer = torch.optim.Adam(actor.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
for i in range(12):
    x = torch.randn(8, 3)
    actor_optimizer.zero_grad()
    critic_optimizer.zero_grad()
    critic(actor(x)).mean().backward()
    critic_optimizer.step()
    if i == 11:
        actor_optimizer.step()
