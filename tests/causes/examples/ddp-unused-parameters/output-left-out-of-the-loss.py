import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Depth(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.confidence = nn.Linear(3, 1), nn.Linear(3, 1)

    def forward(self, x):
        return self.net(x), self.confidence(x)


def parallel(module):
    return nn.parallel.DistributedDataParallel(module)


depth = parallel(Depth())
for step in range(2):
    value, sure = depth(torch.randn(4, 3))
    value.square().mean().backward()

# told at: return nn.parallel.DistributedDataParallel(module)
# fails: Expected to have finished reduction in the prior iteration before starting a new one
