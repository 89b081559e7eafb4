import torch, torch.nn as nn
torch.manual_seed(0)
class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_std = nn.Parameter(torch.zeros(2))
        self.opt = torch.optim.Adam(list(self.actor.parameters()) + list(self.critic.parameters()), lr=3e-3)
    def dist(self, obs):
        return torch.distributions.Normal(self.actor(obs), self.log_std.exp())
    def update(self, obs, act, ret, old_logp):
        d = self.dist(obs)
        logp = d.log_prob(act).sum(-1)
        value = self.critic(obs).squeeze(-1)
        adv = (ret - value).detach()
        ratio = (logp - old_logp).exp()
        loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.5 * (ret - value).pow(2).mean() - 0.01 * d.entropy().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()
agent = Agent()
for it in range(6):
    obs = torch.randn(64, 4)
    with torch.no_grad():
        d = agent.dist(obs)
        act = d.sample()
        logp = d.log_prob(act).sum(-1)
    ret = -(act - obs[:, :2]).pow(2).sum(-1)
    for _ in range(3):
        print(f"{agent.update(obs, act, ret, logp):.3f}")

# told at: self.opt = torch.optim.Adam(list(self.actor.parameters()) + list(self.critic.parameters()), lr=3e-3)
