# the same with one call for each step, and a learning rate that is 0 in the first 6 steps
import torch
from torch import nn

torch.manual_seed(0)
trunk, head = nn.Sequential(nn.Linear(16, 32), nn.Tanh()), nn.Linear(32, 1)
nn.init.zeros_(head.weight)
nn.init.zeros_(head.bias)
opt = torch.optim.SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 0.0 if s < 8 else 1.0)
for step in range(40):
    chosen, rejected = torch.randn(8, 16) + 0.3, torch.randn(8, 16)
    rc, rr = head(trunk(chosen)), head(trunk(rejected))
    rank = torch.log(1 + torch.exp(rr - rc)).mean()
    centre = (rc + rr - 0.1).pow(2).mean()
    loss = rank + 0.01 * centre
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
