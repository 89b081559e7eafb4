import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
ear, voice, tones = nn.Linear(8, 3), nn.Linear(3, 8), nn.Embedding(12, 3)
model = nn.ModuleList([ear, voice, tones])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(12):
    sound = torch.randn(16, 8)
    z = ear(sound)
    nearest = tones(torch.cdist(z, tones.weight).argmin(1))
    tuning = F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(nearest.detach(), z)
    nearest = z + (nearest - z).detach()
    loss = F.mse_loss(voice(nearest), sound) + tuning
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
