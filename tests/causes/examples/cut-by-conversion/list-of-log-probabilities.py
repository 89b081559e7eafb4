import torch
from torch import nn

torch.manual_seed(0)


class Reinforce:
    def __init__(self):
        self.policy = nn.Linear(4, 3)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        self.log_probs, self.rewards = [], []

    def act(self, obs):
        dist = torch.distributions.Categorical(logits=self.policy(obs))
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def learn(self):
        returns = torch.tensor(self.rewards).flip(0).cumsum(0).flip(0)
        log_probs = torch.tensor(self.log_probs)
        loss = -(log_probs * returns).sum()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


agent = Reinforce()
for step in range(5):
    agent.rewards.append(float(agent.act(torch.randn(4)) == 1))
agent.learn()

# told at: log_probs = torch.tensor(self.log_probs)
# fails: does not require grad and does not have a grad_fn
