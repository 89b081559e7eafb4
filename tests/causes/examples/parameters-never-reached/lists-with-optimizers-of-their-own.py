import torch
from torch import nn


class Ensemble(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.members = [nn.Linear(4, 1) for _ in range(3)]


torch.manual_seed(0)
model = Ensemble()
optimizers = [torch.optim.Adam(m.parameters()) for m in model.members]
shared = torch.optim.Adam(model.shared.parameters())
for _ in range(12):
    x = torch.randn(16, 4)
    loss = sum((m(model.shared(x)) - x[:, :1]).pow(2).mean() for m in model.members)
    for optimizer in (shared, *optimizers):
        optimizer.zero_grad()
    loss.backward()
    for optimizer in (shared, *optimizers):
        optimizer.step()
