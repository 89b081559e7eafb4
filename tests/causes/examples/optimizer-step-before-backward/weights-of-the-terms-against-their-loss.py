import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
parts = nn.Parameter(torch.zeros(12))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
of_parts = torch.optim.SGD([parts], lr=0.1)
for step in range(6):
    x, y = torch.randn(12, 4), torch.randint(0, 3, (12,))
    weight = nn.functional.softplus(parts)
    scores = net(x)
    known = nn.functional.cross_entropy(scores[:6], y[:6])
    other = (nn.functional.cross_entropy(scores[6:], y[6:], reduction="none") * weight[6:]).mean()
    loss = known + other
    against = -other
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    of_parts.zero_grad()
    against.backward()
    of_parts.step()

# told at: optimizer.step()
# fails: modified by an inplace operation
