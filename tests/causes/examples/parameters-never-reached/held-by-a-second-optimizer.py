import torch
from torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))

    def forward(self, a):
        return (-self.scale).exp() * a + self.scale


torch.manual_seed(0)
model, scaled = nn.Linear(4, 1), Scaled()
optimizer = torch.optim.Adam(model.parameters())
slow = torch.optim.SGD(scaled.parameters(), lr=0.01)
for i in range(20):
    optimizer.zero_grad()
    scaled(model(torch.randn(8, 4)).pow(2).mean()).sum().backward()
    optimizer.step()
    if i % 10 == 9:
        slow.step()
        slow.zero_grad()
