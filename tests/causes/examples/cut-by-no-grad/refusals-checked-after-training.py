import torch
from torch import nn

net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    opt.zero_grad()
    loss = net(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    opt.step()


def refuses(call):
    try:
        call()
    except RuntimeError:
        return True
    return False


with torch.no_grad():
    value = net(torch.randn(2, 4)).sum()
frozen = nn.Linear(4, 1).requires_grad_(False)
assert refuses(lambda: frozen(torch.randn(2, 4)).sum().backward())
assert refuses(lambda: loss.backward())
assert refuses(lambda: value.backward())
