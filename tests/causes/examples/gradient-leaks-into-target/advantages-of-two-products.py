import torch
from torch import nn
from torch.distributions import Independent, Normal

torch.manual_seed(0)
actor = nn.Linear(4, 2)
critic = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
spread = nn.Parameter(torch.zeros(2))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), spread], lr=0.01)
for _ in range(6):
    states = [torch.randn(8, 4) for _ in range(5)]
    actions, before, values, rewards = [], [], [], []
    for state in states:
        with torch.no_grad():
            policy = Independent(Normal(actor(state), spread.exp()), 1)
            action = policy.sample()
        actions.append(action)
        before.append(policy.log_prob(action))
        values.append(critic(state).squeeze(1))
        rewards.append(state.sum(1) - action.pow(2).sum(1))
    gain, advantages = torch.zeros(8), []
    for reward, value in zip(reversed(rewards), reversed(values)):
        gain = reward + 0.9 * gain
        advantages.insert(0, gain - value)
    advantage = torch.stack(advantages)
    policy = Independent(Normal(actor(torch.stack(states)), spread.exp()), 1)
    ratio = torch.exp(policy.log_prob(torch.stack(actions)) - torch.stack(before))
    scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    free = ratio * scaled
    bound = torch.clamp(ratio, 0.8, 1.2) * scaled
    loss = -torch.min(free, bound).mean() + 0.5 * advantage.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: free = ratio * scaled
