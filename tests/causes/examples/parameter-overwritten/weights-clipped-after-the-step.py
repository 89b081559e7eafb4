import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.RMSprop(critic.parameters())
for _ in range(3):
    gap = critic(torch.randn(4, 2)).mean() - critic(torch.randn(4, 2)).mean()
    optimizer.zero_grad()
    gap.backward()
    optimizer.step()
    with torch.no_grad():
        for p in critic.parameters():
            p.clamp_(-0.05, 0.05)
