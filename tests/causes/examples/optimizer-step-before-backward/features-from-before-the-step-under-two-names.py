import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8))
        self.policy = nn.Linear(8, 2)
        self.value = nn.Linear(8, 1)

    def encode(self, observation):
        encoded = self.features(observation)
        return encoded

    def act(self, state):
        return self.policy(state).log_softmax(-1)[0, 0]


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)

state = agent.encode(torch.randn(1, 3))
for step in range(4):
    logp = agent.act(state)
    observation = torch.randn(1, 3)
    previous = state
    state = agent.encode(observation)
    loss = -logp + agent.value(agent.encode(observation)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: state = agent.encode(observation)
# fails: modified by an inplace operation
