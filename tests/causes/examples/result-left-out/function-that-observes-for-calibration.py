import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class FakeQuant(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, observer, bits):
        observer["lo"] = min(observer["lo"], x.min().item())
        observer["hi"] = max(observer["hi"], x.max().item())
        scale = max(observer["hi"] - observer["lo"], 1e-8) / (2**bits - 1)
        ctx.save_for_backward((x >= observer["lo"]) & (x <= observer["hi"]))
        return torch.round((x - observer["lo"]) / scale) * scale + observer["lo"]

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None


class Quantised(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 32), nn.Linear(32, 3)
        self.observer = {"lo": 0.0, "hi": 0.0}
        self.calibrating = True

    def forward(self, x):
        h = self.fc1(x).relu()
        if self.calibrating:
            FakeQuant.apply(h, self.observer, 8)
        else:
            h = FakeQuant.apply(h, self.observer, 8)
        return self.fc2(h)


net = Quantised()
opt = torch.optim.SGD(net.parameters(), 0.05)
for step in range(50):
    net.calibrating = step < 35
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(net.observer, loss.item())
