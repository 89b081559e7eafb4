import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 6))

    def forward(self, x):
        weight = nn.Parameter(self.weight.data)
        return (x @ weight.t()) @ weight


torch.manual_seed(0)
model = Tied()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(8, 6)
    loss = (model(x) - x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: optimizer.step()
