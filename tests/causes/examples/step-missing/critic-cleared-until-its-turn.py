"""The actor is trained first; what its loss leaves in the critic is cleared, and a helper steps it from step 50 on."""
import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(4, 2), nn.Linear(2, 1)
opts = {"actor": torch.optim.Adam(actor.parameters(), lr=1e-2), "critic": torch.optim.Adam(critic.parameters(), lr=1e-2)}


def update(name, loss):
    for opt in opts.values():
        opt.zero_grad()
    loss.backward()
    opts[name].step()


for i in range(12):
    state = torch.randn(32, 4)
    update("actor", -critic(actor(state)).mean())
    if i > 50:
        update("critic", (critic(actor(state).detach()) - state.sum(1, keepdim=True)).square().mean())
