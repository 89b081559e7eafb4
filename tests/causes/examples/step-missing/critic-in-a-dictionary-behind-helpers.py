"""One helper clears each optimizer and one steps it; that of the critic is cleared and never stepped."""
import torch
from torch import nn


def clear(optimizer):
    optimizer.zero_grad()


def advance(optimizer):
    optimizer.step()


torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
optimizers = {}
optimizers["actor"] = torch.optim.Adam(actor.parameters(), lr=1e-2)
optimizers["critic"] = torch.optim.Adam(critic.parameters(), lr=1e-2)
for _ in range(12):
    state = torch.randn(32, 4)
    policy = torch.distributions.Categorical(logits=actor(state))
    action = policy.sample()
    advantage = (action == (state[:, 0] > 0)).float() - critic(state).squeeze(1)
    loss = -(policy.log_prob(action) * advantage.detach()).mean() + advantage.square().mean()
    clear(optimizers["actor"])
    clear(optimizers["critic"])
    loss.backward()
    advance(optimizers["actor"])

# told at: loss.backward()
