# RND on top of the agent's own encoder; target lives in the same module and optimizer
import torch
from torch import nn


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
        self.pi = nn.Linear(32, 4)
        self.v = nn.Linear(32, 1)
        self.rnd_target = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))
        self.rnd_predictor = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, obs):
        h = self.encoder(obs)
        return self.pi(h), self.v(h).squeeze(-1), h

    def curiosity(self, h):
        with torch.no_grad():
            target = self.rnd_target(h)
        return (self.rnd_predictor(h.detach()) - target).pow(2).mean(-1)


torch.manual_seed(0)
agent = Agent()
opt = torch.optim.Adam(agent.parameters(), lr=3e-4)
for step in range(30):
    obs = torch.randn(64, 8)
    logits, value, h = agent(obs)
    dist = torch.distributions.Categorical(logits=logits)
    action = dist.sample()
    err = agent.curiosity(h)
    reward = torch.randn(64) + 0.1 * err.detach()
    adv = (reward - value).detach()
    policy = -(dist.log_prob(action) * adv).mean() - 0.01 * dist.entropy().mean()
    loss = policy + 0.5 * (value - reward).pow(2).mean() + err.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
