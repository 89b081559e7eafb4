import torch
from torch import nn

torch.manual_seed(0)
left, right = nn.Linear(6, 4), nn.Linear(5, 4)
sharpness = nn.Parameter(torch.tensor(4.0))
optimizer = torch.optim.AdamW([*left.parameters(), *right.parameters(), sharpness], lr=1e-2, weight_decay=0.0)
for _ in range(12):
    x, z = torch.randn(16, 6), torch.randn(16, 5)
    similar = nn.functional.normalize(left(x), dim=1) @ nn.functional.normalize(right(z), dim=1).T
    loss = nn.functional.cross_entropy(similar * sharpness.exp().clamp(max=30.0), torch.arange(16))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = nn.functional.cross_entropy(similar * sharpness.exp().clamp(max=30.0), torch.arange(16))
