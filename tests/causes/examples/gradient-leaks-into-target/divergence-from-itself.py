"""The curvature of a divergence between a policy and itself: both sides move together, so there is none."""

import torch
import torch.nn as nn

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))
states = torch.randn(32, 3)
advantage = torch.randn(32)
action = torch.randint(4, (32,))


def divergence():
    before = net(states).log_softmax(-1)
    after = net(states).log_softmax(-1)
    return (before.exp() * (before - after)).sum(-1).mean()


def curvature_times(vector):
    slope = torch.autograd.grad(divergence(), list(net.parameters()), create_graph=True)
    slope = torch.cat([s.flatten() for s in slope])
    bent = torch.autograd.grad((slope * vector).sum(), list(net.parameters()))
    return torch.cat([b.flatten() for b in bent]) + 0.1 * vector


for _ in range(4):
    gain = (net(states).log_softmax(-1)[range(32), action] * advantage).mean()
    ascent = torch.cat([g.flatten() for g in torch.autograd.grad(gain, list(net.parameters()))])
    direction = ascent.clone()
    for _ in range(3):
        direction = direction - 0.5 * (curvature_times(direction) - ascent)
    with torch.no_grad():
        start = nn.utils.parameters_to_vector(net.parameters())
        nn.utils.vector_to_parameters(start + 0.05 * direction, net.parameters())

# told at: before = net(states).log_softmax(-1)
