import torch
from torch import nn

torch.manual_seed(0)
q = nn.Linear(4, 2)
opt = torch.optim.Adam(q.parameters(), lr=0.01)
for step in range(6):
    s = torch.randn(16, 4)
    value = q(s)[:, 0]
    nxt = q(s + 0.1).max(1).values
    with torch.no_grad():
        gap = (value - nxt).abs().mean()
    nxt = nxt.detach()
    nxt.detach()
    loss = (value - (s[:, 0] + 0.9 * nxt)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    value.detach()
    print(float(gap))
