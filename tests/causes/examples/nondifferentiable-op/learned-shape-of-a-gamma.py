"""The likelihood of censored times under a gamma distribution whose shape is learned: PyTorch has no such derivative."""

import torch

torch.manual_seed(0)
shape = torch.tensor(0.3, requires_grad=True)
rate = torch.tensor(0.1, requires_grad=True)
optimizer = torch.optim.Adam([shape, rate], lr=0.01)
times = torch.rand(12) * 4 + 0.1
for _ in range(2):
    scaled = rate.exp() * times
    share = torch.special.gammainc(shape.exp(), scaled)
    loss = -torch.log1p(-share.clamp(max=0.999)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: share = torch.special.gammainc(shape.exp(), scaled)
# fails: the derivative for
