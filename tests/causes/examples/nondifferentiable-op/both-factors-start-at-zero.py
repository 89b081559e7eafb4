import torch
from torch import nn

torch.manual_seed(0)


class Adapter(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(base.in_features, 2))
        self.up = nn.Parameter(torch.zeros(2, base.out_features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + x @ self.down @ self.up


net = nn.Sequential(Adapter(nn.Linear(4, 8)), nn.Tanh(), Adapter(nn.Linear(8, 8)), nn.Linear(8, 1))
optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
for _ in range(12):
    optimizer.zero_grad()
    net(torch.randn(16, 4)).pow(2).mean().backward()
    optimizer.step()

# told at: return self.base(x) + x @ self.down @ self.up
