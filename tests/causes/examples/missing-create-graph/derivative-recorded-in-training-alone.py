import torch
from torch import nn


class Pressure(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, volume):
        volume.requires_grad_()
        energy = self.energy(volume)
        slope = torch.autograd.grad(energy.sum(), volume, create_graph=self.training, retain_graph=True)[0]
        return energy, -slope


def fit(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        volume = torch.rand(16, 1) + 0.5
        measured = 1 / volume
        energy, pressure = model(volume)
        loss = (pressure - measured).pow(2).mean() + 0.1 * (energy + volume.detach().log()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


torch.manual_seed(0)
model = Pressure()
fit(model, 12)
model.eval()  # the other laboratory's data
fit(model, 20)

# told at: slope = torch.autograd.grad(energy.sum(), volume, create_graph=self.training, retain_graph=True)[0]
