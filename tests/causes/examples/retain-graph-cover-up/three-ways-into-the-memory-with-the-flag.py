import collections
import random

import torch
from torch import nn


class Agent:
    def __init__(self):
        self.reader = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6))
        self.state, self.worth = nn.GRUCell(6, 6), nn.Linear(6, 3)
        every = [*self.reader.parameters(), *self.state.parameters(), *self.worth.parameters()]
        self.optimizer = torch.optim.Adam(every, lr=0.01)
        self.memory = collections.deque(maxlen=40)

    def advance(self, seen, state):
        following = self.state(seen, state)
        return following, self.worth(following)

    def learn(self):
        drawn = random.sample(self.memory, 6)
        seen, state = torch.cat([d[0] for d in drawn]), torch.cat([d[1] for d in drawn])
        reward = torch.tensor([d[2] for d in drawn])
        _, worth = self.advance(seen, state)
        loss = (worth.max(1)[0] - reward).square().mean()
        self.optimizer.zero_grad()
        loss.backward(retain_graph=True)
        self.optimizer.step()

    def episode(self):
        state = torch.zeros(1, 6)
        for number in range(5):
            seen = self.reader(torch.randn(1, 4))
            if number == 4:
                self.memory.append((seen, state, 1.0))
            else:
                following, worth = self.advance(seen, state)
                if worth.argmax() == 0:
                    self.memory.append((seen, state, -1.0))
                else:
                    self.memory.append((seen, state, 0.5))
                state = following


torch.manual_seed(0)
random.seed(0)
agent = Agent()
for _ in range(6):
    agent.episode()
    if len(agent.memory) > 8:
        agent.learn()

# told at: self.memory.append((seen, state, 0.5))
# fails: modified by an inplace operation
