import torch
from torch import nn


class Kernel(nn.Module):
    def __init__(self, width=2.0):
        super().__init__()
        self.width = torch.exp(nn.Parameter(torch.log(torch.tensor(width))))

    def forward(self, x):
        return torch.exp(-((x[:, None] - x[None]) / self.width).square())


class Process(nn.Module):
    def __init__(self):
        super().__init__()
        self.kernel = Kernel()
        self.noise = nn.Parameter(torch.zeros(()))

    def forward(self, x, y):
        among = self.kernel(x) + torch.exp(self.noise) * torch.eye(len(x))
        return y @ torch.linalg.solve(among, y) + torch.logdet(among)


torch.manual_seed(0)
net = Process()
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
x = torch.linspace(0, 3, 6)
for _ in range(3):
    loss = net(x, x.sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.width = torch.exp(nn.Parameter(torch.log(torch.tensor(width))))
# fails: backward through the graph a second time
