import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt, critic_opt = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())


def values(state, action):
    return critic(torch.cat([state, action], 1)), critic(torch.cat([state, actor(state)], 1))


for _step in range(3):
    state, action, target = torch.randn(6, 3), torch.randn(6, 1), torch.randn(6, 1)
    taken, chosen = values(state, action)
    critic_loss = (taken - target).pow(2).mean()
    actor_loss = -chosen.mean()
    critic_opt.zero_grad()
    critic_loss.backward()
    critic_opt.step()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
    print(float(critic_loss.detach()), float(taken.detach().mean()))

# told at: critic_opt.step()
# fails: modified by an inplace operation
