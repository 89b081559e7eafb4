import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 2)
judge = nn.Linear(2, 1)
optimizer = torch.optim.SGD([*net.parameters(), *judge.parameters()], lr=0.05)

for step in range(20):
    x = torch.randn(8, 3)
    out = net(x)
    seen = torch.autograd.grad(judge(out).sum(), out, retain_graph=True)[0]
    print(f"{seen.norm().item():.3f}")
    loss = (out - x[:, :2]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
