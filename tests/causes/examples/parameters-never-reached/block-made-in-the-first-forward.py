import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = None

    def forward(self, x):
        if self.net is None:
            self.net = nn.Sequential(nn.Linear(x.shape[1], 4), nn.ReLU(), nn.Linear(4, 1)).to(x.device)
        return torch.sigmoid(self.net(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate, self.head = nn.Linear(6, 8), Gate(), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.body(x))
        return self.head(h * self.gate(h))


torch.manual_seed(0)
net = Net()
optimizer = torch.optim.Adam([{"params": list(m.parameters())} for m in (net.body, net.gate, net.head)], lr=1e-2)
for _ in range(12):
    x = torch.randn(16, 6)
    loss = nn.functional.mse_loss(net(x), x[:, :1] * x[:, 1:2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.net = nn.Sequential(nn.Linear(x.shape[1], 4), nn.ReLU(), nn.Linear(4, 1)).to(x.device)
