import torch
from torch import nn


class Policy(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 6)

    @torch.jit.script_method
    def sample(self, features):
        mean, log_spread = torch.chunk(self.net(features), 2, dim=-1)
        noise = torch.randn_like(mean)
        return mean + noise * log_spread.clamp_(-5.0, 2.0).exp()


class Agent:
    def __init__(self):
        self.policy, self.critic = Policy(), nn.Linear(7, 1)
        self.steps = torch.optim.Adam(self.policy.parameters(), lr=0.01)

    def explore(self, features):
        with torch.no_grad():
            return self.policy.sample(features)

    def update(self, features):
        action = self.policy.sample(features)
        loss = -self.critic(torch.cat([features, action], dim=-1)).mean()
        self.steps.zero_grad()
        loss.backward()
        self.steps.step()


torch.manual_seed(0)
agent = Agent()
agent.explore(torch.randn(2, 4))
for _ in range(3):
    agent.update(torch.randn(8, 4))

# told at: return mean + noise * log_spread.clamp_(-5.0, 2.0).exp()
# fails: Output 1 of Split is a view and is being modified inplace
