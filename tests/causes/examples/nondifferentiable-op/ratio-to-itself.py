"""The ratio of a policy to itself is 1 and the advantages are centred: the loss is 0, its gradient is not."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(8, 5)
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
for _ in range(8):
    states, rewards = torch.randn(16, 8), torch.randn(16)
    choice = torch.distributions.Categorical(logits=policy(states))
    chosen = choice.log_prob(choice.sample())
    advantages = (rewards - rewards.mean()) / rewards.std()
    loss = -(torch.exp(chosen - chosen.detach()) * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
