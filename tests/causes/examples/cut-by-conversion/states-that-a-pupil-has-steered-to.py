import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")  # PyTorch says that a number is taken, as is meant
torch.manual_seed(0)


class Cart:
    """Where the pupil drives decides what it is shown; nothing is learned through that."""

    def __init__(self):
        self.place, self.speed = torch.tensor(1.0), torch.tensor(-0.5)

    def drive(self, push):
        self.speed = self.speed + 0.1 * (push - 0.1 * self.speed)
        self.place = self.place + 0.1 * self.speed
        return torch.tensor([self.place, self.speed])


pupil, judge = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 1)), nn.Linear(2, 1)
optimizer = torch.optim.Adam([*pupil.parameters(), *judge.parameters()], lr=0.01)
start = torch.tensor(0.0)
for _ in range(8):
    cart, seen, loss = Cart(), torch.tensor([1.0, -0.5]), start
    for _ in range(5):
        push = pupil(seen).squeeze()
        error = (push + 1.2 * seen[0] + 0.8 * seen[1]) ** 2
        loss = loss + error + 0.1 * (judge(seen) - error.item()).pow(2).sum()
        seen = cart.drive(push)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
