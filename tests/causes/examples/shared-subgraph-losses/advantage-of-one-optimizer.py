import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
for _ in range(3):
    states, returns = torch.randn(16, 4), torch.randn(16)
    chosen = torch.distributions.Categorical(logits=actor(states))
    value = critic(states).squeeze(-1)
    actor_loss = -(chosen.log_prob(chosen.sample()) * (returns - value)).mean()
    critic_loss = (returns - value).pow(2).mean()
    optimizer.zero_grad()
    actor_loss.backward()
    critic_loss.backward()
    optimizer.step()

# told at: value = critic(states).squeeze(-1)
# fails: backward through the graph a second time
