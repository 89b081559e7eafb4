import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class Center(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 5)
        self.centers = nn.Parameter(torch.randn(5, 16))

    def forward(self, x):
        z = self.norm(self.fc(x).relu())
        return z, self.head(z)

    def move_centers(self, z, y, rate=0.5):
        for c in y.unique().tolist():
            d = self.centers.data[c] - z[y == c].mean(0)
            self.centers.data[c] -= rate * d


net = Center()
decay, rest = [], []
for m in net.modules():
    if isinstance(m, nn.Linear):
        decay.append(m.weight)
        rest.append(m.bias)
    elif isinstance(m, nn.LayerNorm):
        rest.append(m.weight)
        rest.append(m.bias)
opt = torch.optim.AdamW([{"params": decay}, {"params": rest, "weight_decay": 0.0}], lr=1e-3)
for _ in range(30):
    x, y = torch.randn(16, 8), torch.randint(1, 5, (16,))
    z, logits = net(x)
    loss = F.cross_entropy(logits, y) + 0.01 * (z - net.centers[y]).pow(2).sum(1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    net.move_centers(z.detach(), y)
print(loss.item())
