"""An estimate of a divergence is clamped where its exponential has no value any more: zero times infinity behind it."""
import torch
from torch import nn

torch.manual_seed(0)
policy = nn.Linear(4, 3)
reference = nn.Linear(4, 3).requires_grad_(False)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(5):
    x, action = torch.randn(6, 4), torch.randint(3, (6, 1))
    if step == 2:
        x[0] *= 1000.0
        action[0] = policy(x[0]).argmin()
    log_ratio = reference(x).log_softmax(-1).gather(1, action) - policy(x).log_softmax(-1).gather(1, action)
    ratio = torch.exp(log_ratio)
    divergence = (ratio - log_ratio - 1).clamp(min=-10, max=10).mean()
    optimizer.zero_grad()
    divergence.backward()
    optimizer.step()
    assert all(p.isfinite().all() for p in policy.parameters()), "the weights are not finite"

# told at: ratio = torch.exp(log_ratio)
# fails: the weights are not finite
