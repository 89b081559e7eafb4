import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class EMAQuantizer(nn.Module):
    def __init__(self, n=8, d=16, decay=0.95):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(n, d))
        self.codebook.data[0] += 100.0  # a dead code
        self.register_buffer("count", torch.ones(n))
        self.register_buffer("sums", self.codebook.data.clone())
        self.decay = decay

    def forward(self, z):
        idx = torch.cdist(z, self.codebook).argmin(1)
        q = self.codebook[idx]
        if self.training:
            onehot = F.one_hot(idx, len(self.count)).type_as(z)
            self.count.mul_(self.decay).add_(onehot.sum(0), alpha=1 - self.decay)
            self.sums.mul_(self.decay).add_(onehot.t() @ z.detach(), alpha=1 - self.decay)
            used = onehot.sum(0) > 0
            self.codebook.data[used] = (self.sums / self.count.unsqueeze(1))[used]
        commit = F.mse_loss(z, q)
        return z + (q - z).detach(), commit


enc, vq, dec = nn.Linear(20, 16), EMAQuantizer(), nn.Linear(16, 20)
opt = torch.optim.Adam([*enc.parameters(), *dec.parameters()], lr=1e-3)
for _ in range(40):
    x = torch.randn(64, 20)
    q, commit = vq(enc(x))
    loss = F.mse_loss(dec(q), x) + 0.25 * commit
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
