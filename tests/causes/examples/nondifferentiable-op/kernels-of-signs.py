import torch
from torch import nn
from torch.nn import functional as F


class SignConv(nn.Conv1d):
    def forward(self, x):
        size = self.weight.abs().mean(dim=(1, 2), keepdim=True)
        binary = torch.sign(self.weight)
        return F.conv1d(x, binary * size, self.bias, padding=1)


torch.manual_seed(0)
net = nn.Sequential(SignConv(2, 8, 3), nn.ReLU(), SignConv(8, 1, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(10):
    x = torch.randn(16, 2, 12)
    loss = (net(x)[:, 0] - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: binary = torch.sign(self.weight)
