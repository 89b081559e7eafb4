import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)


class Reinforce:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.states, self.actions, self.log_probs, self.rewards = [], [], [], []

    def act(self, state):
        probs = torch.softmax(self.policy(state), -1)
        dist = Categorical(probs)
        action = dist.sample()
        self.states.append(state)
        self.actions.append(action)
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def update(self):
        returns = torch.tensor(self.rewards)
        for _ in range(3):
            terms = []
            for log_prob, ret in zip(self.log_probs, returns):
                terms.append(-log_prob * ret)
            loss = torch.stack(terms).sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        self.states.clear(), self.actions.clear(), self.log_probs.clear(), self.rewards.clear()


agent = Reinforce()
for _ in range(2):
    for _ in range(4):
        agent.rewards.append(float(agent.act(torch.randn(3)) == 0))
    agent.update()

# told at: self.log_probs.append(dist.log_prob(action))
# fails: backward through the graph a second time
