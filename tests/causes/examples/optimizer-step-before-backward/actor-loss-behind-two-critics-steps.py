"""Two critics judge the actor's action, and both are stepped before the actor's loss is differentiated."""

import torch
from torch import nn

torch.manual_seed(0)


def critic():
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1))


class Agent:
    def __init__(self, twins=True):
        self.twins = twins
        self.actor = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2), nn.Tanh())
        self.q1, self.q2 = critic(), critic()
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.q1_opt = torch.optim.Adam(self.q1.parameters(), lr=1e-3)
        self.q2_opt = torch.optim.Adam(self.q2.parameters(), lr=1e-3)

    def learn(self, state, action, target):
        judged = torch.cat([state, self.actor(state)], 1)
        actor_loss = -torch.min(self.q1(judged), self.q2(judged)).mean()
        taken = torch.cat([state, action], 1)
        q1_loss = (self.q1(taken) - target).square().mean()
        q2_loss = (self.q2(taken) - target).square().mean()

        self.q1_opt.zero_grad()
        q1_loss.backward()
        self.q1_opt.step()

        if self.twins:
            self.q2_opt.zero_grad()
            q2_loss.backward()
            self.q2_opt.step()

        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()


agent = Agent()
for _ in range(3):
    agent.learn(torch.randn(6, 3), torch.rand(6, 2), torch.randn(6, 1))

# told at: self.q2_opt.step()
# fails: modified by an inplace operation
