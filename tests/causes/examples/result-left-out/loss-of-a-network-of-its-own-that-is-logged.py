import torch
from torch import nn
from torch.nn import functional as F


class Pace(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, track, seconds):
        expected = F.softplus(self.out(torch.tanh(self.body(track)))).squeeze(1)
        return (expected.log1p() - seconds.log1p()).square().mean()


class Runner(nn.Module):
    def __init__(self, pace=None):
        super().__init__()
        self.pace, self.stride = pace, nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, track, steps):
        return F.mse_loss(self.stride(track), steps)


torch.manual_seed(0)
runner = Runner(Pace())
optimizer = torch.optim.Adam(runner.parameters(), lr=1e-2)
history = {"loss": [], "pace": []}
for _ in range(16):
    track = torch.rand(32, 4)
    if runner.pace is not None:
        pace_loss = runner.pace(track, 3 * track.sum(1))
        history["pace"].append(pace_loss.item())
    loss = runner(track, track[:, :2])
    history["loss"].append(loss.item())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: pace_loss = runner.pace(track, 3 * track.sum(1))
