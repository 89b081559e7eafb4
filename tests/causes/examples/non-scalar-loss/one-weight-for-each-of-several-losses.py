import torch
from torch import nn

torch.manual_seed(0)
actor, critic = nn.Linear(3, 2), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*actor.parameters(), *critic.parameters()], lr=0.1)
for step in range(3):
    x = torch.randn(4, 3)
    losses = [-actor(row).log_softmax(-1)[:1] for row in x]
    critic_loss = critic(x).square().mean()
    optimizer.zero_grad()
    torch.autograd.backward([critic_loss] + losses, [torch.ones(1)] * (1 + len(losses)))
    optimizer.step()

# told at: torch.autograd.backward([critic_loss] + losses, [torch.ones(1)] * (1 + len(losses)))
# fails: Mismatch in shape: grad_output[0] has a shape of
