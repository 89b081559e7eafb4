import torch
from torch import nn


class Pendulum(nn.Module):
    def __init__(self):
        super().__init__()
        self.length = nn.Parameter(torch.tensor(0.7))

    def forward(self, state):
        angle, speed = state.squeeze()
        pull = torch.sin(angle) / self.length
        return torch.stack((angle + 0.1 * speed, speed - 0.1 * pull * speed**2))


torch.manual_seed(0)
model = Pendulum()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
path = torch.zeros(5, 1, 2)
path[0] = torch.tensor([[0.3, 0.1]])
for step in range(4):
    path[step + 1] = model(path[step]).unsqueeze(0)
optimizer.zero_grad()
path.pow(2).sum().backward()
optimizer.step()

# told at: angle, speed = state.squeeze()
# fails: function that returns multiple views
