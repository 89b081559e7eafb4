"""Two critics judge actions that the policy draws: their losses meet in the policy's graph, which neither trains."""

import torch
from torch import nn


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 16)
        self.mean = nn.Linear(16, 2)

    def forward(self, obs):
        spread = torch.distributions.Normal(self.mean(torch.tanh(self.body(obs))), 0.3)
        action = spread.rsample()
        return action, spread.log_prob(action).sum(1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, obs, action):
        return self.net(torch.cat([obs, action], 1))


class Learner:
    def __init__(self):
        self.policy, self.first, self.second = Policy(), Critic(), Critic()
        self.policy_optim = torch.optim.Adam(self.policy.parameters())
        self.first_optim = torch.optim.Adam(self.first.parameters())
        self.second_optim = torch.optim.Adam(self.second.parameters())

    def drawn(self, obs):
        act, log_prob = self.policy(obs)
        one = self.first(obs, act)
        two = self.second(obs, act)
        return one - log_prob.detach().unsqueeze(1), two - log_prob.detach().unsqueeze(1)

    def learn(self, obs, action, target):
        chosen, log_prob = self.policy(obs)
        gain = torch.min(self.first(obs, chosen), self.second(obs, chosen)).mean()
        self.policy_optim.zero_grad()
        (0.1 * log_prob.mean() - gain).backward()
        self.policy_optim.step()
        above = self.drawn(obs)
        first_loss = (self.first(obs, action) - target).square().mean() + above[0].logsumexp(0).mean()
        second_loss = (self.second(obs, action) - target).square().mean() + above[1].logsumexp(0).mean()
        self.first_optim.zero_grad()
        first_loss.backward()
        self.first_optim.step()
        self.second_optim.zero_grad()
        second_loss.backward()
        self.second_optim.step()


torch.manual_seed(0)
learner = Learner()
for _ in range(3):
    learner.learn(torch.randn(8, 4), torch.randn(8, 2), torch.randn(8, 1))

# told at: act, log_prob = self.policy(obs)
# fails: backward through the graph a second time
