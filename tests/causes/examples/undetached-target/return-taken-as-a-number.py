import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
world = nn.Linear(6, 4).requires_grad_(False)
actor, value = nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
of_value = torch.optim.Adam(value.parameters(), lr=1e-3)
for _ in range(3):
    first = torch.randn(16, 4)
    state = torch.tanh(world(torch.cat([first, actor(first).tanh()], -1)))
    imagined = state[:, :1] + 0.9 * value(state)
    of_actor.zero_grad()
    (-imagined.mean()).backward()
    of_actor.step()
    value_loss = F.mse_loss(value(first), imagined.detach())
    of_value.zero_grad()
    value_loss.backward()
    of_value.step()
