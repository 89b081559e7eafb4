import torch
from torch import nn

torch.manual_seed(0)


class Tank(nn.Module):
    """A cooled tank: its level and its temperature drive each other, in part by a learnt law."""

    def __init__(self):
        super().__init__()
        self.law = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
        self.loss_rate = nn.Parameter(torch.tensor(0.4))

    def forward(self, level, warmth, steps):
        seen = []
        for _ in range(steps):
            flow = self.law(torch.tensor([level, warmth / 2])).squeeze()
            level, warmth = level + 0.1 * flow, warmth + 0.1 * (level - self.loss_rate * warmth)
            seen.append(level + warmth)
        return torch.stack(seen)


tank = Tank()
optimizer = torch.optim.Adam(tank.parameters(), lr=0.01)
gauge = 1.5 + 0.5 * torch.cos(torch.arange(12) * 0.3)
total = torch.tensor(0.0)
for _ in range(8):
    loss = torch.tensor(0.0)
    for value, goal in zip(tank(torch.tensor(1.0), torch.tensor(0.5), 12), gauge):
        loss = loss + (value - goal) ** 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")

# told at: flow = self.law(torch.tensor([level, warmth / 2])).squeeze()
