import random
from collections import deque, namedtuple

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
random.seed(0)
Step = namedtuple("Step", ["state", "action", "reward", "log_prob"])


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.mean = nn.Linear(8, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, state):
        return self.mean(torch.tanh(self.body(state))), self.log_std.exp()


class Agent:
    def __init__(self):
        self.actor = Actor()
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-2)
        self.memory = deque(maxlen=50)

    def play(self):
        state = torch.randn(3)
        for _ in range(5):
            mean, std = self.actor(state)
            dist = Normal(mean, std)
            action = dist.sample()
            log_prob = dist.log_prob(action).sum()
            reward = float(-(action - state.sum()).abs())
            self.memory.append(Step(state, action, reward, log_prob))
            state = torch.randn(3)

    def learn(self):
        batch = random.sample(list(self.memory), 4)
        loss = torch.stack([-step.log_prob * step.reward for step in batch]).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Agent()
for _ in range(4):
    agent.play()
    agent.learn()

# told at: self.memory.append(Step(state, action, reward, log_prob))
# fails: backward through the graph a second time
