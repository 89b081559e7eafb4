import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
for _ in range(12):
    state = torch.randn(16, 3)
    action = actor(state).detach() + 0.1 * torch.randn(16, 1)
    reward = -((state.sum(1, keepdim=True) - action) ** 2)
    critic_loss = nn.functional.mse_loss(critic(torch.cat([state, action], 1)), reward)
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    actor_loss = -critic(torch.cat([state, actor(state)], 1)).mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()

# told at: critic_optimizer = torch.optim.Adam(actor.parameters(), lr=1e-3)
