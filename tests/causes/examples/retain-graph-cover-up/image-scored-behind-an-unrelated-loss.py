import torch
from torch import nn

torch.manual_seed(0)
coder, critic = nn.Linear(4, 4), nn.Linear(4, 1)
maker = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 4))
opt_coder = torch.optim.SGD(coder.parameters(), lr=0.01)
opt_maker = torch.optim.Adam(maker.parameters(), lr=0.01)
opt_critic = torch.optim.SGD(critic.parameters(), lr=0.01)
for step in range(6):
    words, picture = torch.randn(8, 4), torch.randn(8, 3)
    made = maker(picture)
    opt_coder.zero_grad()
    (coder(words) - words).square().mean().backward()
    opt_coder.step()
    opt_maker.zero_grad()
    ((made - words).square().mean() - critic(made).mean()).backward(retain_graph=True)
    opt_maker.step()
    opt_critic.zero_grad()
    (critic(made) - critic(words)).mean().backward()
    opt_critic.step()

# told at: (critic(made) - critic(words)).mean().backward()
# fails: modified by an inplace operation
