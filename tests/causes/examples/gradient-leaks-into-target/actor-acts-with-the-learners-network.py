import torch
from torch import nn

torch.manual_seed(0)


class Player:
    def __init__(self, policy):
        self.policy = policy

    @torch.no_grad()
    def act(self, state):
        return torch.distributions.Categorical(logits=self.policy(state)).sample()


class Learner(Player):
    def learn(self, optimizer, state, action):
        reward = (action == (state[:, 0] > 0)).float()
        chosen = torch.distributions.Categorical(logits=self.policy(state)).log_prob(action)
        optimizer.zero_grad()
        (-chosen * reward).mean().backward()
        optimizer.step()


policy = nn.Linear(4, 2)
player, learner = Player(policy), Learner(policy)
optimizer = torch.optim.Adam(policy.parameters())
for state in torch.randn(10, 16, 4):
    learner.learn(optimizer, state, player.act(state))
    player.policy.load_state_dict(learner.policy.state_dict())
