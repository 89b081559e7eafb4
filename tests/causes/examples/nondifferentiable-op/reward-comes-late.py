import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
critic = nn.Linear(3, 1)
optimizer = torch.optim.Adam(policy.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())
for step in range(30):
    state = torch.randn(8, 3)
    actions = torch.distributions.Categorical(logits=policy(state))
    action = actions.sample()
    reward = (action == 2).float() * (step >= 20)
    optimizer.zero_grad()
    (-actions.log_prob(action) * reward).mean().backward()
    optimizer.step()
    adversarial = 0.0 if step < 25 else 1.0
    critic_optimizer.zero_grad()
    (critic(state) * adversarial).pow(2).mean().backward()
    critic_optimizer.step()
