import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.out = nn.Linear(8, 2)

    @torch.no_grad()
    def encode(self, x):
        return torch.tanh(self.embed(x))

    def forward(self, x):
        return self.out(self.encode(x))


net = Encoder()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def saliency(x, y):
    x = x.clone().requires_grad_()
    nn.functional.cross_entropy(net(x), y).backward()
    return x.grad.abs().sum(1)


for _ in range(4):
    x, y = torch.randn(6, 4), torch.randint(0, 2, (6,))
    weight = saliency(x, y)
    optimizer.zero_grad()
    (nn.functional.cross_entropy(net(x), y, reduction="none") * weight).mean().backward()
    optimizer.step()

# told at: return x.grad.abs().sum(1)
# fails: 'NoneType' object has no attribute 'abs'
