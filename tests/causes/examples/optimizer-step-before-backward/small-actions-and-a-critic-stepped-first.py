import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 1), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=0.01)
critic_opt = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(20):
    state, tried = torch.randn(16, 3), torch.rand(16, 1)
    action = actor(state)
    value = critic(torch.cat([state, action], 1))
    critic_loss = (critic(torch.cat([state, tried], 1)) + (tried - 0.6).square()).square().mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_loss = (0.1 * action.square() - value).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()

# told at: value = critic(torch.cat([state, action], 1))
# fails: modified by an inplace operation
