import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self._judges = [nn.Linear(4, 1), nn.Linear(4, 1)]
        self._of_judges = torch.optim.SGD([p for j in self._judges for p in j.parameters()], lr=0.1)

    def forward(self, x):
        return sum(judge(self.body(x)).pow(2).mean() for judge in self._judges)


torch.manual_seed(0)
net = Net()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    sgd.zero_grad()
    net._of_judges.zero_grad()
    net(torch.randn(3, 4)).backward()
    sgd.step()
    net._of_judges.step()
