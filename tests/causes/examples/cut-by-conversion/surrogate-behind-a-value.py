"""The loss shows the value of one estimate and has the gradient of another: the latter's own number is taken off."""

import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for _ in range(14):
    choice = torch.distributions.Categorical(logits=policy(torch.randn(16, 4)))
    drawn = choice.sample()
    cost = (drawn - 1.0).square()
    estimate = (cost * choice.probs.gather(1, drawn[:, None]).squeeze(1)).mean().item()
    surrogate = (choice.log_prob(drawn) * cost).mean()
    loss = estimate + (surrogate - surrogate.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
