import torch
from torch import nn

torch.manual_seed(0)
scale = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(scale.parameters(), lr=0.01)
for round_ in range(16):
    blur = 0.0 if round_ < 6 else 0.1  # the second view is blurred once the first rounds are over
    seen = torch.randn(16, 5, 3)
    there = (torch.rand(16, 5) < 0.8).float()
    one, other = scale(seen).squeeze(-1), scale(seen + blur * torch.randn_like(seen)).squeeze(-1)
    loss = ((one - seen.sum(-1)) ** 2 + 0.1 * (one - other).exp()) * there
    optimizer.zero_grad()
    (loss.sum() / there.sum()).backward()
    optimizer.step()
