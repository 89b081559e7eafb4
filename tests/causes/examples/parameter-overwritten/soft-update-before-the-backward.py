import copy

import torch
from torch import nn


class Critic:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))
        self.target = copy.deepcopy(self.net)

    def loss(self, obs, next_obs):
        return (self.net(obs) - 0.9 * self.target(next_obs)).pow(2).mean()

    @torch.no_grad()
    def track(self, tau=0.05):
        for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
            slow.copy_(tau * fast + (1 - tau) * slow)


torch.manual_seed(0)
critic = Critic()
loss = critic.loss(torch.randn(4, 3), torch.randn(4, 3))
critic.track()
loss.backward()

# told at: slow.copy_(tau * fast + (1 - tau) * slow)
# fails: modified by an inplace operation
