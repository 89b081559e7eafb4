import copy

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
critic = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
follower = copy.deepcopy(critic)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)


def follow():
    for f, c in zip(follower.parameters(), critic.parameters()):
        f.data.mul_(0.9).add_(0.1 * c.data)


for step in range(40):
    action = torch.randn(16, 2)
    critic_loss = (critic(action) - action.sum(1, keepdim=True)).pow(2).mean()
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
    policy_loss = -follower(policy(torch.randn(16, 4))).mean()
    follow()
    policy_optimizer.zero_grad()
    policy_loss.backward()
    policy_optimizer.step()
print(policy_loss.item())

# told at: f.data.mul_(0.9).add_(0.1 * c.data)
