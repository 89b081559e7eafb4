"""No move is rewarded at first, and a divergence of the policy from itself has no slope: it learns later."""

import torch
from torch import nn

torch.manual_seed(0)
policy, reference = nn.Linear(6, 5), nn.Linear(6, 5)
reference.load_state_dict(policy.state_dict())
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)


def log_probs(model, state, move):
    return model(state).log_softmax(-1).gather(1, move).squeeze(1)


for turn in range(16):
    state = torch.randn(12, 6)
    with torch.no_grad():
        move = torch.multinomial(policy(state).softmax(-1), 1)
        old = log_probs(reference, state, move)
    now = log_probs(policy, state, move)
    reward = (move.squeeze(1) == 1).float() * (turn > 10)
    ratio = (now - now.detach()).exp()
    divergence = (old - now).exp() - (old - now) - 1
    loss = (0.1 * divergence - ratio * (reward - reward.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
