import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.block, self.out = nn.Linear(4, 4), nn.Linear(4, 1)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.block, x, use_reentrant=True)
        return self.out(x)


model = nn.parallel.DistributedDataParallel(Recurrent(), find_unused_parameters=True)
x = torch.randn(3, 4, requires_grad=True)
model(x).mean().backward()

# told at: x = checkpoint(self.block, x, use_reentrant=True)
# fails: Expected to mark a variable ready only once
