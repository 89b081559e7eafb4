import copy

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.judge = [nn.Linear(4, 1)]
        self.features = [nn.Linear(4, 4), nn.Linear(4, 4)]
        for layer in self.features:
            layer.load_state_dict(copy.deepcopy(layer.state_dict()))

    def forward(self, x):
        x = self.body(x)
        return self.judge[0](x).mean() + sum(layer(x).pow(2).mean() for layer in self.features)


torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(12):
    optimizer.zero_grad()
    model(torch.randn(16, 4)).backward()
    optimizer.step()
