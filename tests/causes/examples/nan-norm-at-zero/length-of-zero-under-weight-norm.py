import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        last = nn.Linear(width, width)
        nn.init.zeros_(last.bias)
        self.inner = nn.Linear(width, width)
        self.last = weight_norm(last)
        nn.init.zeros_(self.last.parametrizations.weight.original0)

    def forward(self, x):
        return x + self.last(torch.relu(self.inner(x)))


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), Residual(8), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    x = torch.randn(16, 3)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
