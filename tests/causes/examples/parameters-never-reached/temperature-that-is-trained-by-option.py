import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)


class SAC:
    def __init__(self, obs=4, act=2, auto_alpha=False, alpha=0.2):
        self.actor = nn.Sequential(nn.Linear(obs, 32), nn.ReLU(), nn.Linear(32, 2 * act))
        self.critic = nn.Sequential(nn.Linear(obs + act, 32), nn.ReLU(), nn.Linear(32, 1))
        self.log_alpha = nn.Parameter(torch.tensor([alpha]).log())
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.auto_alpha = auto_alpha
        if auto_alpha:
            self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=3e-4)
        self.target_entropy = -act

    def sample(self, s):
        mu, log_std = self.actor(s).chunk(2, -1)
        dist = Normal(mu, log_std.clamp(-5, 2).exp())
        u = dist.rsample()
        a = torch.tanh(u)
        return a, (dist.log_prob(u) - torch.log(1 - a.pow(2) + 1e-6)).sum(-1, keepdim=True)

    def update(self, s, a, r):
        q_loss = (self.critic(torch.cat([s, a], -1)) - r).pow(2).mean()
        self.critic_opt.zero_grad()
        q_loss.backward()
        self.critic_opt.step()
        new_a, logp = self.sample(s)
        pi_loss = (self.log_alpha.exp() * logp - self.critic(torch.cat([s, new_a], -1))).mean()
        self.actor_opt.zero_grad()
        pi_loss.backward()
        self.actor_opt.step()
        if self.auto_alpha:
            a_loss = -(self.log_alpha * (logp + self.target_entropy).detach()).mean()
            self.alpha_opt.zero_grad()
            a_loss.backward()
            self.alpha_opt.step()
        return q_loss.item(), pi_loss.item()


agent = SAC()
for _ in range(40):
    s, a = torch.randn(32, 4), torch.rand(32, 2) * 2 - 1
    out = agent.update(s, a, -s.pow(2).sum(1, keepdim=True))
print(out)
