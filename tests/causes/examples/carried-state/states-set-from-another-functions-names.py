import torch
from torch import nn

torch.manual_seed(0)


def integrate(current, potential, trace, decay):
    trace = decay * trace + current
    potential = decay * potential + trace
    return potential, trace, torch.sigmoid(5 * (potential - 1))


class Neurons(nn.Module):
    def __init__(self, size, count):
        super().__init__()
        self.weights = nn.Linear(size, count)
        self.decay = nn.Parameter(torch.tensor(0.8))
        self.potential = None
        self.trace = None

    def forward(self, x):
        current = self.weights(x)
        if self.potential is None:
            self.potential = torch.zeros_like(current)
            self.trace = torch.zeros_like(current)
        p = self.potential
        p, t, spikes = integrate(current, p, self.trace, self.decay)
        self.potential = p
        self.trace = t
        return spikes


net = nn.Sequential(Neurons(3, 8), Neurons(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    loss = nn.functional.mse_loss(net(torch.randn(4, 3)), torch.zeros(4, 2))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.potential = p
# fails: backward through the graph a second time
