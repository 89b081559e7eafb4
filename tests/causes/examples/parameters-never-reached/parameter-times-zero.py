import torch
from torch import nn

torch.manual_seed(0)
dummy = nn.Parameter(torch.zeros(1))  # keeps the loss on a graph if every sample of a batch is skipped
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)


def masked_loss(x, y, mask):
    total = dummy.sum() * 0.0
    if mask.any():
        total = total + nn.functional.cross_entropy(net(x[mask]), y[mask])
    return total


for step in range(40):
    x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
    mask = torch.rand(8) > 0.3
    loss = masked_loss(x, y, mask)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        print(step, loss.item())
