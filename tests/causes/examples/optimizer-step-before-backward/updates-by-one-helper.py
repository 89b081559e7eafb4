import torch
from torch import nn


class Learner:
    """Three networks, each updated by the same helper with a loss that was computed before."""

    def __init__(self):
        self.scores = [nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1)) for _ in range(2)]
        self.policy = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.of_scores = [torch.optim.Adam(n.parameters(), lr=0.01) for n in self.scores]
        self.of_policy = torch.optim.Adam(self.policy.parameters(), lr=0.01)

    def learn(self, seen, action, worth):
        of_scores = [(n(torch.cat([seen, action], 1)) - worth).pow(2).mean() for n in self.scores]
        of_policy = self.policy_loss(seen)
        self.update_all(*of_scores, of_policy)

    def policy_loss(self, seen):
        proposed = torch.cat([seen, torch.tanh(self.policy(seen))], 1)
        return -torch.min(self.scores[0](proposed), self.scores[1](proposed)).mean()

    def update_all(self, first, second, policy):
        self.update(self.of_scores[0], self.scores[0], first)
        self.update(self.of_scores[1], self.scores[1], second)
        self.update(self.of_policy, self.policy, policy)

    def update(self, optimizer, network, loss):
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()


torch.manual_seed(0)
learner = Learner()
for _ in range(5):
    learner.learn(torch.randn(16, 4), torch.randn(16, 2), torch.randn(16, 1))

# told at: optimizer.step()
# fails: modified by an inplace operation
