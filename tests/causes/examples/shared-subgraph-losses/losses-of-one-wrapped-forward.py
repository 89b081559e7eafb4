import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Two(nn.Module):
    """Two networks that share nothing; the wrapper gives out both losses through one node."""

    def __init__(self):
        super().__init__()
        self.left, self.right = nn.Linear(4, 8), nn.Linear(4, 8)

    def forward(self, features, targets):
        left = (self.left(features).mean(dim=1) - targets).square().mean()
        right = (self.right(features).tanh().mean(dim=1) - targets).abs().mean()
        return left, right


model = DDP(Two(), find_unused_parameters=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    left, right = model(torch.randn(8, 4), torch.randn(8))
    optimizer.zero_grad()
    left.backward()
    right.backward()
    optimizer.step()
dist.destroy_process_group()

# told at: left.backward()
# fails: Trying to backward through the graph a second time
