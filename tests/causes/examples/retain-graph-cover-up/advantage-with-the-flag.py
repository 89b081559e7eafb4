import torch
from torch import nn

torch.manual_seed(0)


def net(out):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, out))


class ActorCritic:
    def __init__(self):
        self.actor, self.critic = net(2), net(1)
        self.actor_opt = torch.optim.SGD(self.actor.parameters(), lr=0.01)
        self.critic_opt = torch.optim.SGD(self.critic.parameters(), lr=0.01)

    def learn(self, obs, returns):
        dist = torch.distributions.Categorical(logits=self.actor(obs))
        advantage = returns - self.critic(obs).squeeze(-1)
        self.critic_opt.zero_grad()
        advantage.pow(2).mean().backward(retain_graph=True)
        self.critic_opt.step()
        self.actor_opt.zero_grad()
        (-dist.log_prob(dist.sample()) * advantage).mean().backward()
        self.actor_opt.step()


ActorCritic().learn(torch.randn(6, 4), torch.randn(6))

# told at: (-dist.log_prob(dist.sample()) * advantage).mean().backward()
# fails: modified by an inplace operation
