import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
actor, critic = nn.Linear(3, 1), nn.Linear(4, 1)
a_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
c_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(10):
    state = torch.randn(8, 3)
    value = critic(torch.cat([state, actor(state)], 1))
    F.mse_loss(value, state.sum(1, keepdim=True)).backward()
    a_optimizer.step()
    (0.01 * sum(p.pow(2).sum() for p in critic.parameters())).backward()
    c_optimizer.step()
    a_optimizer.zero_grad()
    c_optimizer.zero_grad()
