import torch
from torch import nn

torch.manual_seed(0)
server = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def fit(net, given, mu=0.1):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(6):
        x = torch.randn(16, 4)
        near = 0.0
        for p, q in zip(net.parameters(), given):
            near = near + ((p - q) ** 2).sum()
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > 0).long()) + mu / 2 * near
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


for _ in range(2):
    start = list(server.parameters())
    fit(server, start)

# told at: start = list(server.parameters())
