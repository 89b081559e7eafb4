import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(2):
            x = checkpoint(self.block, x, use_reentrant=False)
        return x


model = nn.parallel.DistributedDataParallel(Recurrent())
model(torch.randn(3, 4)).mean().backward()
print(model.module.block.weight.grad.shape)
dist.destroy_process_group()
