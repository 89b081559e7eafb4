import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(3):
    states, returns = torch.randn(6, 3), torch.randn(6, 1)
    values = critic(states)
    advantages = (returns - values).detach()
    policy_loss = -(actor(states).log_softmax(1)[:, :1] * advantages).mean()
    loss = policy_loss + 0.5 * (returns - values).pow(2).mean()
    critic_opt.zero_grad()
    loss.backward(retain_graph=True)
    critic_opt.step()
    actor_opt.zero_grad()
    loss.backward()
    actor_opt.step()

# told at: critic_opt.step()
# fails: modified by an inplace operation
