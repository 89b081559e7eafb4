import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class Memory:
    def __init__(self):
        self.states, self.actions, self.log_probs, self.rewards = [], [], [], []

    def store(self, state, action, log_prob, reward):
        self.states.append(state)
        self.actions.append(action)
        self.log_probs.append(log_prob)
        self.rewards.append(reward)

    def clear(self):
        self.__init__()


class Agent:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.memory = Memory()

    def play(self):
        for _ in range(4):
            state = torch.randn(3)
            dist = Categorical(logits=self.policy(state))
            action = dist.sample()
            log_prob = dist.log_prob(action)
            self.memory.store(state, action, log_prob, float(action == 0))

    def update(self):
        for _ in range(3):
            log_probs = torch.stack(self.memory.log_probs)
            loss = -(log_probs * torch.tensor(self.memory.rewards)).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.memory.clear()


agent = Agent()
for _ in range(2):
    agent.play()
    agent.update()

# told at: self.log_probs.append(log_prob)
# fails: backward through the graph a second time
