import torch
from torch import nn

torch.manual_seed(0)
encoder, critic = nn.Linear(4, 4), nn.Linear(4, 1)
of_encoder = torch.optim.SGD(encoder.parameters(), lr=0.1)
of_critic = torch.optim.SGD(critic.parameters(), lr=0.1)
encoder.weight.grad = torch.full((4, 4), 0.01)
for step in range(12):
    code = encoder(torch.randn(6, 4))
    of_critic.zero_grad()
    (critic(code) - 1).square().mean().backward(inputs=list(critic.parameters()))
    of_critic.step()
    of_encoder.step()
