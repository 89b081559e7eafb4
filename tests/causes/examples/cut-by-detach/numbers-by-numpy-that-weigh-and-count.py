import numpy as np
import torch
from torch import nn


torch.manual_seed(0)
policy, value = nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], lr=1e-2)
for _ in range(8):
    states = torch.randn(12, 4)
    chosen = torch.distributions.Categorical(logits=policy(states))
    actions = chosen.sample()
    values = value(states).squeeze(1)
    guesses = values.detach().numpy()
    rewards = (states[:, 0] * (2 * actions - 1)).numpy()
    advantages, last = np.zeros(12, dtype=np.float32), 0.0
    for t in reversed(range(12)):
        last = rewards[t] + 0.9 * (guesses[t + 1] if t < 11 else 0.0) - guesses[t] + 0.8 * last
        advantages[t] = last
    surprise = float(np.mean((guesses - rewards) ** 2))
    loss = (values - torch.from_numpy(advantages + guesses)).pow(2).mean() * (1 + 0.1 * surprise)
    loss = loss - (chosen.log_prob(actions) * torch.from_numpy(advantages)).mean() + 0.25
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
