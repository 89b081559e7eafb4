import torch
from torch.nn.functional import mse_loss

torch.manual_seed(0)


class Scene:
    def __init__(self, points):
        self.points = points.requires_grad_()
        self.moved = self.points + 0.5

    def distances(self, x):
        return (x.unsqueeze(1) - self.moved).square().sum(-1)


scene = Scene(torch.randn(5, 3))
optimizer = torch.optim.Adam([scene.points], lr=0.05)
for step in range(6):
    x = torch.randn(32, 3)
    loss = mse_loss(scene.distances(x).amin(1), torch.zeros(32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


# told at: self.moved = self.points + 0.5
