import copy

import torch
from torch import nn
from torch.nn.functional import mse_loss


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.hidden, self.out = nn.Linear(inputs, 6), nn.Linear(6, outputs)
        self.optimizer = torch.optim.Adam(self.parameters())

    def forward(self, x):
        return self.out(self.hidden(x).tanh())


class Agent:
    def __init__(self):
        self.actor, self.critic = Net(3, 2), Net(7, 1)
        self.target_actor, self.target_critic = Net(3, 2), Net(7, 1)

    def follow(self):
        for net, target in ((self.actor, self.target_actor), (self.critic, self.target_critic)):
            mixed = copy.deepcopy(net.state_dict())
            for name, value in target.state_dict().items():
                mixed[name] = 0.1 * mixed[name] + 0.9 * value
            target.load_state_dict(mixed)


def learn(agents, seen, next_seen, reward):
    actions = torch.cat([agent.actor(seen) for agent in agents], 1)
    next_actions = torch.cat([agent.target_actor(next_seen) for agent in agents], 1)
    for agent in agents:
        expected = reward + 0.9 * agent.target_critic(torch.cat([next_seen, next_actions], 1))
        critic_loss = mse_loss(agent.critic(torch.cat([seen, actions.detach()], 1)), expected)
        agent.critic.optimizer.zero_grad()
        critic_loss.backward(retain_graph=True)
        agent.critic.optimizer.step()

        actor_loss = -agent.critic(torch.cat([seen, actions], 1)).mean()
        agent.actor.optimizer.zero_grad()
        actor_loss.backward(retain_graph=True)
        agent.actor.optimizer.step()
        agent.follow()


torch.manual_seed(0)
agents = [Agent(), Agent()]
for _ in range(4):
    learn(agents, torch.randn(8, 3), torch.randn(8, 3), torch.randn(8, 1))

# told at: target.load_state_dict(mixed)
# fails: modified by an inplace operation
