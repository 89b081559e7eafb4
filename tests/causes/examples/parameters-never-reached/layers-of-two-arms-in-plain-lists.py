import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, depth=3, wide=False):
        super().__init__()
        if wide:
            self.layers = [nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8)) for _ in range(depth)]
        else:
            self.layers = [nn.Linear(8, 8) for _ in range(depth)]
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.head(x)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(12):
    x = torch.randn(16, 8)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.layers = [nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8)) for _ in range(depth)]
