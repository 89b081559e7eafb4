# bootstrapped DQN with randomized priors, prior heads on the trunk
import torch
from torch import nn
import torch.nn.functional as F


class Ensemble(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 32), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(32, 2) for _ in range(k))
        self.priors = nn.ModuleList(nn.Linear(32, 2) for _ in range(k))

    def forward(self, x):
        h = self.trunk(x)
        return torch.stack([head(h) + 3.0 * prior(h).detach() for head, prior in zip(self.heads, self.priors)])


torch.manual_seed(0)
net, target = Ensemble(), Ensemble()
target.load_state_dict(net.state_dict())
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(30):
    s, a, r, s2 = torch.randn(32, 6), torch.randint(0, 2, (32,)), torch.randn(32), torch.randn(32, 6)
    mask = torch.bernoulli(torch.full((3, 32), 0.5))
    q = net(s)[:, torch.arange(32), a]
    with torch.no_grad():
        y = r + 0.99 * target(s2).max(-1).values
    loss = (F.smooth_l1_loss(q, y, reduction="none") * mask).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0:
        target.load_state_dict(net.state_dict())
