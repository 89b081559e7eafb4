import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.mixer, self.out = nn.Linear(8, 32), nn.Linear(32, 8, bias=False), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.mixer(self.inp(x).relu()).relu())


net = Net()
fixed = set(map(id, net.mixer.parameters()))
opt = torch.optim.AdamW([p for p in net.parameters() if id(p) not in fixed], lr=1e-3)
for _ in range(30):
    loss = F.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 3, (16,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
