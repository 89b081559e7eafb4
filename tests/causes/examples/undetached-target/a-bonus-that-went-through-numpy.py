import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
a_optimizer = torch.optim.Adam(actor.parameters())
c_optimizer = torch.optim.Adam(critic.parameters())


def bonus(worth):
    return torch.from_numpy(np.abs(worth.detach().numpy()))


for step in range(4):
    seen, returns = torch.randn(6, 4), torch.randn(6)
    value = critic(seen).squeeze(1)
    extra = bonus(value)
    policy = torch.distributions.Categorical(logits=actor(seen))
    action = policy.sample()
    gap = returns - value
    a_loss = -(policy.log_prob(action) * gap * extra).mean()
    a_optimizer.zero_grad()
    a_loss.backward()
    a_optimizer.step()
    c_loss = (returns - value).pow(2).mean()
    c_optimizer.zero_grad()
    c_loss.backward()
    c_optimizer.step()

# told at: gap = returns - value
# fails: a second time
