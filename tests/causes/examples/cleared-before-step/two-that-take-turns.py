import torch
from torch import nn

torch.manual_seed(0)
encoder, head, critic = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(4, 1)
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=0.01)
head_optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for number in range(32):
    x = torch.randn(16, 4)
    encoder_optimizer.zero_grad()
    head_optimizer.zero_grad()
    (head(encoder(x).tanh()) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    if number % 2 == 0:
        encoder_optimizer.step()
    else:
        head_optimizer.step()

policy = nn.Linear(4, 4)
policy_optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for number in range(16):
    x = torch.randn(16, 4)
    critic_optimizer.zero_grad()
    (critic(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    critic_optimizer.step()
    policy_optimizer.zero_grad()
    (-critic(policy(x).tanh())).mean().backward()
    if number % 2 == 1:
        policy_optimizer.step()

goal = nn.Linear(4, 4)
goal_optimizer = torch.optim.SGD(goal.parameters(), lr=0.01)
for number in range(16):
    x = torch.randn(16, 4)
    (goal(x) - x).pow(2).mean().div(4).backward()
    if number % 4 == 3:
        goal_optimizer.step()
        goal_optimizer.zero_grad()
