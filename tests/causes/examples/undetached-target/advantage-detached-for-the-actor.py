import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.SGD(critic.parameters(), lr=1e-3)
for _ in range(2):
    obs, returns = torch.randn(6, 4), torch.randn(6)
    dist = torch.distributions.Categorical(logits=actor(obs))
    advantage = returns - critic(obs).squeeze(-1)
    actor_opt.zero_grad()
    (-dist.log_prob(dist.sample()) * advantage.detach()).mean().backward()
    actor_opt.step()
    critic_opt.zero_grad()
    advantage.pow(2).mean().backward()
    critic_opt.step()
