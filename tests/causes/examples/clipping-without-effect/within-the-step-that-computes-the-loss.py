import torch
from torch import nn


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4))

    def training_step(self, x):
        loss = (self.net(x) - 20 * x.flip(1)).square().mean()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        return loss


torch.manual_seed(0)
module = Module()
optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
for x in torch.randn(8, 16, 4):
    loss = module.training_step(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: nn.utils.clip_grad_norm_(self.parameters(), 1.0)
