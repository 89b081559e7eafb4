import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.RMSprop(critic.parameters(), lr=0.005)

for step in range(40):
    real, fake = torch.randn(16, 4) + 1.0, torch.randn(16, 4)
    loss = critic(fake).mean() - critic(real).mean()
    for p in critic.parameters():
        p.data.clamp_(-0.1, 0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())

# told at: p.data.clamp_(-0.1, 0.1)
