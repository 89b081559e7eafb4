import torch
from torch import nn

max_norm = 0.5
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(12):
    x = torch.randn(16, 6)
    loss = (model(x) - x.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if max_norm > 0:
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)

# told at: nn.utils.clip_grad_norm_(model.parameters(), max_norm)
