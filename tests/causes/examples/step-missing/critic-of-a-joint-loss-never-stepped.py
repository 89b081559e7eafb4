"""Actor and critic learn from one sum; the critic's optimizer is cleared with the other's and never steps."""
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-2)
critic_opt = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(12):
    state = torch.randn(32, 4)
    policy = torch.distributions.Categorical(logits=actor(state))
    action = policy.sample()
    advantage = (action == (state[:, 0] > 0)).float() - critic(state).squeeze(1)
    loss = -(policy.log_prob(action) * advantage.detach()).mean() + advantage.square().mean()
    actor_opt.zero_grad()
    critic_opt.zero_grad()
    loss.backward()
    actor_opt.step()

# told at: loss.backward()
