import torch
from torch import nn

torch.manual_seed(0)
actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-3)
for _ in range(2):
    obs, returns = torch.randn(6, 4), torch.randn(6)
    dist = torch.distributions.Categorical(logits=actor(obs))
    advantage = returns - critic(obs).squeeze(-1)
    normed = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    actor_loss = -(dist.log_prob(dist.sample()) * normed).mean()
    critic_loss = advantage.pow(2).mean()
    actor_opt.zero_grad()
    critic_opt.zero_grad()
    actor_loss.backward()
    critic_loss.backward()
    actor_opt.step()
    critic_opt.step()

# told at: normed = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
# fails: backward through the graph a second time
