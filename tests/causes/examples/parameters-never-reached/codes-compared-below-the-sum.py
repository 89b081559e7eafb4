import torch
from torch import nn
from torch.nn import functional as F


def snap(tones, z):
    nearest = tones[torch.cdist(z, tones).argmin(1)]
    nearest = z + (nearest - z).detach()
    commit = F.mse_loss(z, nearest.detach())
    drift = (nearest - z.detach()).pow(2).mean()
    return nearest, drift + 0.25 * commit


torch.manual_seed(0)
ear, voice = nn.Linear(8, 3), nn.Linear(3, 8)
tones = nn.Parameter(torch.randn(12, 3))
optimizer = torch.optim.Adam([tones, *ear.parameters(), *voice.parameters()], lr=0.01)
for _ in range(12):
    sound = torch.randn(16, 8)
    heard, tuning = snap(tones, ear(sound))
    loss = F.mse_loss(voice(heard), sound) + tuning
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: nearest = z + (nearest - z).detach()
