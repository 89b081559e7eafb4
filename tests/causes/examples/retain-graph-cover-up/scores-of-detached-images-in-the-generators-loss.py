import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
critic = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
opt_d = torch.optim.Adam(critic.parameters(), lr=1e-3)
for step in range(6):
    given, wanted = torch.randn(5, 4), torch.randn(5, 4)
    made = generator(given)
    real = critic(torch.cat([given, wanted], dim=1))
    fake = critic(torch.cat([given, made.detach()], dim=1))
    loss_d = (real - 1).square().mean() + fake.square().mean()
    opt_d.zero_grad()
    loss_d.backward(retain_graph=True)
    opt_d.step()

    distance = (made - wanted).abs().mean()
    judged = (fake - 1).square().mean()
    loss_g = distance + 0.1 * judged
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()

# told at: judged = (fake - 1).square().mean()
# fails: is at version 2; expected version 1 instead
