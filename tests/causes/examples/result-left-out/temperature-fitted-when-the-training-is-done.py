"""The calibration is watched from the start, and its temperature is fitted by another optimizer in the end."""

import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.temperature = nn.Linear(8, 3), nn.Parameter(torch.ones(1))

    def calibrated(self, scores, labels):
        return F.cross_entropy(scores.detach() / self.temperature, labels)


torch.manual_seed(0)
model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
history = []
for _ in range(16):
    x = torch.randn(64, 8)
    labels = x[:, :3].argmax(1)
    scores = model.net(x)
    loss = F.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    calibrated = model.calibrated(scores, labels)
    history.append((loss.item(), calibrated.item()))

last = torch.optim.LBFGS([model.temperature], lr=0.1, max_iter=5)


def closure():
    last.zero_grad()
    loss = F.cross_entropy(model.net(x).detach() / model.temperature, labels)
    loss.backward()
    return loss


last.step(closure)
