# line search on the loss: trial calls are taken away, but the step uses the last of two calls (Barzilai-Borwein)
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)
model = nn.Linear(6, 3)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
previous = None


def closure(x, y):
    for p in model.parameters():
        p.grad = None
    loss = F.cross_entropy(model(x), y)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


for step in range(15):
    x = torch.randn(32, 6)
    y = x[:, :3].argmax(1)
    sharp = []
    for half in (slice(0, 16), slice(16, 32), slice(None)):
        sharp.append(closure(x[half], y[half]))
    agree = torch.dot(sharp[0], sharp[1]) / (sharp[0].norm() * sharp[1].norm())
    for group in opt.param_groups:
        group["lr"] = 0.2 if agree > 0 else 0.05
    opt.step()
