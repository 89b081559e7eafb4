# L2 by hand over matrices; an auxiliary decoder is not used in this stage
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(6, 16), nn.Linear(16, 3)
        self.decoder = nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 6, bias=False))

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))


torch.manual_seed(0)
net = Net()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(20):
    x = torch.randn(16, 6)
    l2 = sum(p.pow(2).sum() for p in net.parameters() if p.dim() > 1)
    loss = F.cross_entropy(net(x), x[:, :3].argmax(1)) + 1e-4 * l2
    opt.zero_grad()
    loss.backward()
    opt.step()
