import torch
from torch import nn
from torch.nn.functional import cross_entropy


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.1 * torch.randn(2, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.t() @ self.up.t()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
for p in model.parameters():
    p.requires_grad = False
model[4] = nn.Linear(8, 3)
trainable = [p for n, p in model.named_parameters() if p.requires_grad and n.startswith("4.")]
optimizer = torch.optim.Adam(trainable)
for i in (0, 2):
    model[i] = Adapted(model[i])
for _ in range(12):
    optimizer.zero_grad()
    cross_entropy(model(torch.randn(16, 6)), torch.randint(3, (16,))).backward()
    optimizer.step()
