import torch
from torch import nn

torch.manual_seed(0)
body, actor, critic = nn.Linear(3, 4), nn.Linear(4, 2), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
actor_optimizer = torch.optim.Adam([*body.parameters(), *actor.parameters()], fused=True)
critic_optimizer = torch.optim.Adam([*body.parameters(), *critic.parameters()], fused=True)
for x in torch.randn(4, 8, 3):
    h = torch.relu(body(x))
    value = critic(h)
    critic_optimizer.zero_grad()
    value.pow(2).mean().backward(retain_graph=True)
    critic_optimizer.step()
    actor_optimizer.zero_grad()
    (actor(h).mean() - 0.1 * value.mean()).backward()
    actor_optimizer.step()

# told at: value = critic(h)
