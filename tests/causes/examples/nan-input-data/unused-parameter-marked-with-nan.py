import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)
        self.offsets = nn.Parameter(torch.full((8,), float("nan")))

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(20):
    x = torch.randn(16, 4)
    loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
