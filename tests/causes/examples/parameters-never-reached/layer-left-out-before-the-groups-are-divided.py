import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.rand, self.head = nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.rand(self.stem(x).relu()).tanh())


net = Net()
FIXED = ("rand",)
named = [(n, p) for n, p in net.named_parameters() if n.split(".")[0] not in FIXED]
groups = [
    {"params": [p for n, p in named if p.ndim > 1], "weight_decay": 1e-2},
    {"params": [p for n, p in named if p.ndim == 1], "weight_decay": 0.0},
]
opt = torch.optim.AdamW(groups, lr=1e-3)
for _ in range(30):
    loss = F.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 3, (16,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
