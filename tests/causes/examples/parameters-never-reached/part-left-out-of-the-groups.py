import torch
from torch import nn


class Matcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 8), nn.ReLU())
        self.neck = nn.Linear(8, 8)
        self.reduce = nn.Linear(16, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, a, b):
        a, b = self.neck(self.body(a)), self.neck(self.body(b))
        return self.head(self.reduce(torch.cat([a, a * b], 1)))


def build(net):
    for p in net.body.parameters():
        p.requires_grad = False
    groups = [{"params": net.neck.parameters(), "lr": 0.01}]
    groups.append({"params": net.head.parameters(), "lr": 0.05})
    optimizer = torch.optim.SGD(groups, momentum=0.9)
    return optimizer


torch.manual_seed(0)
model = Matcher()
optimizer = build(model)
for _ in range(12):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 6), torch.randn(8, 6)), torch.randint(0, 2, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: optimizer = torch.optim.SGD(groups, momentum=0.9)
