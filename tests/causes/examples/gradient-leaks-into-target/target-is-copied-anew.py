import copy

import torch
from torch import nn
from torch.nn import functional as F


class Agent:
    def __init__(self):
        self.online, self.target = (nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3)) for _ in range(2))
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=1e-3)

    def keep_up(self):
        self.target = copy.deepcopy(self.online)

    def learn(self, state, action, reward, following):
        value = self.online(state).gather(1, action).squeeze(1)
        goal = reward + 0.95 * self.target(following).max(1).values
        loss = F.mse_loss(value, goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


torch.manual_seed(0)
agent = Agent()
for step in range(30):
    agent.learn(torch.randn(32, 4), torch.randint(0, 3, (32, 1)), torch.randn(32), torch.randn(32, 4))
    if step % 10 == 9:
        agent.keep_up()
