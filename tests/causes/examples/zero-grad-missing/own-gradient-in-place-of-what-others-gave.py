import torch
from torch import nn

torch.manual_seed(0)
encoder, critic = nn.Linear(4, 4), nn.Linear(4, 1)
of_encoder = torch.optim.SGD(encoder.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
for step in range(12):
    code = encoder(torch.randn(6, 4))
    own = torch.autograd.grad(code.square().mean(), list(encoder.parameters()), retain_graph=True)
    of_critic.zero_grad()
    (critic(code) - 1).square().mean().backward()
    of_critic.step()
    for p, g in zip(encoder.parameters(), own, strict=True):
        p.grad = g
    of_encoder.step()
