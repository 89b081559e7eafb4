import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
average = [p.detach().clone() for p in model.parameters()]


def measured():
    for p, a in zip(model.parameters(), average):
        p.data.copy_(a)
    with torch.no_grad():
        x = torch.randn(32, 4)
        return (model(x) - x.sum(1, keepdim=True)).pow(2).mean().item()


for step in range(30):
    x = torch.randn(16, 4)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    if step % 6 == 5:
        print(f"{loss.item():.4f} {measured():.4f}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for p, a in zip(model.parameters(), average):
        a.mul_(0.9).add_(p.detach(), alpha=0.1)

# told at: p.data.copy_(a)
