import torch
from torch import nn

torch.manual_seed(0)
span = nn.Parameter(torch.tensor(5.0))
mix = nn.Linear(9, 9)
optimizer = torch.optim.Adam([*mix.parameters(), span], lr=0.1)
for _ in range(8):
    x = torch.randn(32, 9)
    kept = int(span.item())
    loss = (mix(x)[:, :kept].sum(1) - x.sum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: kept = int(span.item())
