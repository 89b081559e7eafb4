import torch
from torch import nn

torch.manual_seed(0)
policy, critic = nn.Linear(4, 3), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()])

for _ in range(2):
    states, actions, rewards = torch.randn(6, 4), torch.randint(0, 3, (6, 1)), torch.randn(6, 1)
    old = torch.full((6, 1), 1 / 3)
    values = critic(states)
    returns = rewards + 0.9 * values.roll(-1, 0)
    advantages = returns - values
    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-6)
    advantages = advantages.unsqueeze(2).repeat(1, 1, 2)
    for _ in range(3):
        critic_loss = (critic(states) - returns.detach()).pow(2).mean()
        ratios = (policy(states).softmax(-1).gather(1, actions) / old).unsqueeze(2)
        surrogate = torch.min(ratios * advantages, ratios.clamp(0.8, 1.2) * advantages)
        loss = critic_loss - surrogate.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# told at: advantages = advantages.unsqueeze(2).repeat(1, 1, 2)
# fails: backward through the graph a second time
