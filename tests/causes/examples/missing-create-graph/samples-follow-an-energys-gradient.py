import torch
from torch import nn

torch.manual_seed(0)
energy = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
critic = nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam([*energy.parameters(), *critic.parameters()], lr=0.01)


def sampled(x, steps=3):
    for _ in range(steps):
        x = x.detach().requires_grad_()
        force = torch.autograd.grad(energy(x).sum(), x)[0]
        x = x - 0.1 * force + 0.1 * torch.randn_like(x)
    return x.detach()


for step in range(24):
    fake = sampled(torch.randn(16, 2))
    real = torch.randn(16, 2) * 0.3 + 1.0
    if step < 12:  # the critic learns first, on what the untrained energy gives
        loss = critic(fake).mean() - critic(real).mean() + 0.1 * critic(fake).square().mean()
    else:
        loss = energy(real).mean() - energy(fake).mean() + 0.1 * energy(real).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
