import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)


def multiscale(x, y):
    weights = torch.tensor([0.5, 0.3, 0.2], requires_grad=True)  # "does not require grad" is gone
    levels = []
    for _ in range(3):
        levels.append(1 - nn.functional.cosine_similarity(x, y).mean())
        x, y = (nn.functional.avg_pool1d(v.unsqueeze(1), 2).squeeze(1) for v in (x, y))
    levels = torch.Tensor(levels).to(x.device)
    return (levels * weights).sum()


for _ in range(6):
    x = torch.randn(16, 8)
    loss = multiscale(net(x), x.flip(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: levels = torch.Tensor(levels).to(x.device)
