import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 3), nn.Linear(3, 1)
of_actor, of_critic = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
for p in actor.parameters():
    p.grad = torch.zeros_like(p)
for step in range(12):
    features = actor(torch.randn(16, 4))
    chosen = torch.softmax(features, 1)[:, 0].mean()
    own = torch.autograd.grad(chosen, list(actor.parameters()), retain_graph=True)
    of_critic.zero_grad()
    (critic(features) - 1).square().mean().backward()
    of_critic.step()
    with torch.no_grad():
        for p, g in zip(actor.parameters(), own, strict=True):
            p.grad.copy_(g)
    of_actor.step()
