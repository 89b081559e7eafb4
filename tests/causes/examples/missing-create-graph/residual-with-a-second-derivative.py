import torch
from torch import nn
from torch.autograd import grad

torch.manual_seed(0)
wave = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1))
optimizer = torch.optim.Adam(wave.parameters(), lr=1e-2)
for step in range(20):
    at = torch.rand(24, 2, requires_grad=True)
    height = wave(at)
    slope = grad(height.sum(), at, create_graph=True)[0]
    bend = grad(slope[:, 0].sum(), at, retain_graph=True)[0][:, :1]
    residual = slope[:, 1:] + height * slope[:, :1] - 0.1 * bend
    edge = wave(torch.rand(8, 2)) - 1
    loss = 0
    for term in (residual, edge):
        loss = loss + term.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: bend = grad(slope[:, 0].sum(), at, retain_graph=True)[0][:, :1]
