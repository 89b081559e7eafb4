import torch
from torch import nn

torch.manual_seed(0)
centre, worker, slow = (nn.Linear(4, 2) for _ in range(3))
optimizer = torch.optim.SGD([*centre.parameters(), *worker.parameters(), *slow.parameters()], lr=0.01)
for _ in range(10):
    x = torch.randn(32, 4)
    with torch.no_grad():
        goal = slow(x)
    own = (centre(x) - x[:, :2]).pow(2).mean() + (worker(x) - x[:, :2]).pow(2).mean()
    loss = own + (centre(x) - goal).pow(2).mean() + 0.1 * (centre(x) - worker(x)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for follower, tau in ((worker, 0.1), (slow, 0.01)):
            for p, q in zip(follower.parameters(), centre.parameters()):
                p.lerp_(q, tau)
