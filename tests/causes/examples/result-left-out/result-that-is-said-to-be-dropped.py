import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.legacy, self.head = nn.Linear(5, 5), nn.Linear(5, 3), nn.Linear(5, 2)

    def forward(self, x):
        h = torch.relu(self.body(x))
        _legacy = self.legacy(h)  # kept for the shapes of old checkpoints
        return self.head(h)


torch.manual_seed(0)
net = Encoder()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    x, y = torch.randn(8, 5), torch.randint(0, 2, (8,))
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
