import torch
from torch import nn

torch.manual_seed(0)
critic, slow_critic = nn.Linear(3, 1), nn.Linear(3, 1)
slow_critic.load_state_dict(critic.state_dict())
optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
for i, x in enumerate(torch.randn(9, 8, 3)):
    goal = 0.5 + 0.9 * slow_critic(x + 1).detach()
    loss = (critic(x) - goal).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 3 == 2:
        slow_critic.load_state_dict(slow_critic.state_dict())

# told at: slow_critic.load_state_dict(slow_critic.state_dict())
