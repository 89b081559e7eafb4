import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, update_bn


class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))

    def total(self, position):
        return self.energy(position).sum()

    def forward(self, position):
        position = position.clone().requires_grad_(True)
        energy = self.total(position)
        (slope,) = torch.autograd.grad(energy, position, create_graph=True)
        return -slope


torch.manual_seed(0)
field = Field()
optimizer = torch.optim.Adam(field.parameters())
batches = [torch.randn(6, 3) for _ in range(3)]
for batch in batches:
    optimizer.zero_grad()
    (field(batch) + batch).pow(2).mean().backward()
    optimizer.step()
averaged = AveragedModel(field)
update_bn(batches, averaged)
print(averaged(batches[0]).shape)

# told at: update_bn(batches, averaged)
# fails: does not require grad and does not have a grad_fn
