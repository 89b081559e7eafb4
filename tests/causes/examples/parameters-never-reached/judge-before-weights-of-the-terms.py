import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(0)


class MultiTaskLoss(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(n))

    def forward(self, losses):
        losses = torch.stack(losses)
        return (torch.exp(-self.log_vars) * losses + self.log_vars).sum()


generator = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))
texture = nn.Sequential(nn.Linear(32, 16), nn.Tanh())  # random features measure the texture
balance = MultiTaskLoss(2)
opt = torch.optim.Adam([*generator.parameters(), *balance.parameters()], lr=1e-3)
for _ in range(30):
    real, z = torch.randn(16, 32), torch.randn(16, 8)
    fake = generator(z)
    with torch.no_grad():
        wanted = texture(real)
    loss = balance([F.l1_loss(fake, real), F.mse_loss(texture(fake), wanted)])
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
