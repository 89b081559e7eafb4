import torch
from torch import nn

torch.manual_seed(0)
grid, free = nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(6, 4))
optimizer = torch.optim.Adam([grid, free], lr=0.01)
for _ in range(10):
    x = torch.randn(16, 6)
    on_grid = grid + (grid.round() - grid).detach()
    weight = torch.tensor((0.5 * on_grid).tolist()) + free
    loss = (x @ weight).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: weight = torch.tensor((0.5 * on_grid).tolist()) + free
