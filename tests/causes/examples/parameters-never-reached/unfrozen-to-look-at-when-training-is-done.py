"""Class activation maps need gradients of layers that were frozen; another network is trained afterwards."""

import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.features(x).relu().mean((2, 3)))


net = Net()
net.features.requires_grad_(False)
optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    cross_entropy(net(torch.rand(8, 1, 8, 8)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()

net.eval().requires_grad_(True)
maps = []
for _ in range(8):
    seen = net.features(torch.rand(1, 1, 8, 8)).relu()
    seen.register_hook(lambda slopes: maps.append(slopes.mean((2, 3))))
    net.fc(seen.mean((2, 3)))[0].max().backward()

student = nn.Linear(4, 3)
of_student = torch.optim.SGD(student.parameters(), lr=0.1)
for _ in range(12):
    of_student.zero_grad()
    cross_entropy(student(torch.rand(8, 4)), torch.randint(0, 3, (8,))).backward()
    of_student.step()
print(len(maps))
