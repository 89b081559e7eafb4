import torch
from torch import nn


class Shuffled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Linear(4, width)
        self.order = nn.Parameter(torch.randperm(width), requires_grad=False)

    def forward(self, x):
        return self.body(x)[:, self.order]


torch.manual_seed(0)
model = Shuffled(6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(5, 4)).square().mean().backward()
    optimizer.step()
