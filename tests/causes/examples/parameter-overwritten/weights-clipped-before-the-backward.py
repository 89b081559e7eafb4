import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.RMSprop(critic.parameters())


def clip(module, limit=0.05):
    with torch.no_grad():
        for p in module.parameters():
            p.clamp_(-limit, limit)


gap = critic(torch.randn(4, 2)).mean() - critic(torch.randn(4, 2)).mean()
clip(critic)
optimizer.zero_grad()
gap.backward()
optimizer.step()

# told at: p.clamp_(-limit, limit)
# fails: modified by an inplace operation
