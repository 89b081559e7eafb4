import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


def param_groups(model, skip=("mixer",)):
    decay, no_decay = [], []
    for name, p in model.named_parameters():
        if not p.requires_grad or any(s in name for s in skip):
            continue
        if p.ndim == 1:
            no_decay.append(p)
        else:
            decay.append(p)
    return [{"params": decay, "weight_decay": 0.05}, {"params": no_decay, "weight_decay": 0.0}]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.mixer, self.out = nn.Linear(8, 32), nn.Linear(32, 8, bias=False), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.mixer(self.inp(x).relu()).relu())


net = Net()
opt = torch.optim.AdamW(param_groups(net), lr=1e-3)
for _ in range(30):
    loss = F.cross_entropy(net(torch.randn(16, 8)), torch.randint(0, 3, (16,)))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
