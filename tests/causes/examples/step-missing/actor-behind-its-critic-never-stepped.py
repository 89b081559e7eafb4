import torch
from torch import nn

torch.manual_seed(0)


class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Linear(3, 1), nn.Linear(4, 1)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters())
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters())

    def value(self, state, action):
        return self.critic(torch.cat([state, action], 1))

    def learn(self, state, action, goal):
        error = (self.value(state, action) - goal).square().mean()
        self.critic_optimizer.zero_grad()
        error.backward()
        self.critic_optimizer.step()

        gain = self.value(state, torch.tanh(self.actor(state))).mean()
        self.actor_optimizer.zero_grad()
        (-gain).backward()


agent = Agent()
for _ in range(12):
    agent.learn(torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 1))

# told at: (-gain).backward()
