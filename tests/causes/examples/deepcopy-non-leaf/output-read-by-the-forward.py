import copy

import torch
from torch import nn

torch.manual_seed(0)


class Tap(nn.Module):
    def __init__(self, net, layer):
        super().__init__()
        self.net = net
        self.seen = None
        net[layer].register_forward_hook(self.keep)

    def keep(self, module, given, output):
        self.seen = output.flatten(1)

    def forward(self, x):
        self.net(x)
        return self.seen


class Pair(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.online = Tap(net, 1)
        self.head = nn.Linear(6, 6)
        self.average = None

    def target(self):
        if self.average is None:
            self.average = copy.deepcopy(self.online)
        return self.average

    def forward(self, x):
        guess = self.head(self.online(x))
        with torch.no_grad():
            wanted = self.target()(x)
        return (guess - wanted).square().mean()


pair = Pair(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2)))
opt = torch.optim.SGD([*pair.online.parameters(), *pair.head.parameters()], lr=0.1)
for _ in range(3):
    loss = pair(torch.randn(5, 4))
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
# told at: self.seen = output.flatten(1)
# fails: support the deepcopy protocol
