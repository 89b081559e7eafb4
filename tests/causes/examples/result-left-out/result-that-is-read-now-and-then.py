import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.second, self.head = nn.Linear(5, 5), nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x, deep=False):
        h = torch.relu(self.body(x))
        out, extra = self.head(h), None
        extra = self.second(h)
        if deep:
            return out, extra
        return out


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    x, y = torch.randn(8, 5), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
