import random

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
random.seed(3)
actor = nn.Linear(4, 1)
optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
episodes = []


def act(state):
    policy = Normal(actor(state).squeeze(1), 0.5)
    action = policy.sample()
    return policy.log_prob(action), -(action - state.sum(1)).square()


for _ in range(8):
    episodes.append(act(torch.randn(6, 4)))
    score, reward = random.choice(episodes)
    loss = -(score * (reward - reward.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return policy.log_prob(action), -(action - state.sum(1)).square()
# fails: Trying to backward through the graph a second time
