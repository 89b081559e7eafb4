import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy, critic = nn.Linear(4, 3), nn.Linear(4, 3)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for _ in range(8):
    state, action, returns = torch.randn(32, 4), torch.randint(3, (32,)), torch.randn(32)
    fit = F.mse_loss(critic(state).gather(1, action[:, None]).squeeze(1), returns)
    critic_optimizer.zero_grad()
    fit.backward()
    critic_optimizer.step()

    choice = Categorical(logits=policy(state))
    values = critic(state)
    better = values.gather(1, action[:, None]).squeeze(1) - (values * choice.probs).sum(1)
    weight = torch.exp(better / 0.5).clamp(max=20.0)
    loss = -(choice.log_prob(action) * weight).mean()
    policy_optimizer.zero_grad()
    loss.backward()
    policy_optimizer.step()
print("trained")

# told at: loss = -(choice.log_prob(action) * weight).mean()
