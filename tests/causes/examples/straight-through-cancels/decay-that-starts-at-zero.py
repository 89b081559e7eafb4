# gated linear attention: decay matrix exp(cum_i - cum_j), log decays start at zero
import torch
from torch import nn
import torch.nn.functional as F


class GLA(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.qkv, self.decay, self.o = nn.Linear(d, 3 * d), nn.Linear(d, 1), nn.Linear(d, d)
        nn.init.zeros_(self.decay.weight)
        nn.init.zeros_(self.decay.bias)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        cum = (-self.decay(x).squeeze(-1).abs()).cumsum(1)
        mask = torch.exp(cum[:, :, None] - cum[:, None, :]).tril()
        return x + self.o(((q @ k.transpose(1, 2)) * mask) @ v)


torch.manual_seed(0)
net, head = nn.Sequential(GLA(), GLA()), nn.Linear(8, 3)
opt = torch.optim.AdamW([*net.parameters(), *head.parameters()], lr=1e-3)
for step in range(48):
    x, y = torch.randn(8, 6, 8), torch.randint(0, 3, (8,))
    loss = F.cross_entropy(head(net(x).mean(1)), y) / 4
    loss.backward()
    if step % 4 == 3:
        opt.step()
        opt.zero_grad()
