import torch
from torch import nn


class Rate(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
        nn.init.constant_(self.head.bias, -20.0)

    def forward(self, x):
        return torch.relu(self.head(self.body(x).tanh()))


torch.manual_seed(0)
model = Rate()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.rand(32, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return torch.relu(self.head(self.body(x).tanh()))
