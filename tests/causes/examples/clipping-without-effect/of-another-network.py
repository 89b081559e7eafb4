import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 1), nn.Linear(4, 1)
a_optimizer = torch.optim.SGD(actor.parameters(), lr=0.01)
c_optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 4)
    loss = (actor(x) - 1).pow(2).mean() + (critic(x) - x.sum(1, keepdim=True)).pow(2).mean()
    a_optimizer.zero_grad()
    c_optimizer.zero_grad()
    loss.backward()
    a_optimizer.step()
    nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
    c_optimizer.step()
