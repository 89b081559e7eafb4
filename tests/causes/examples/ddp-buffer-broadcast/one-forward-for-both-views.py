import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
for step in range(2):
    a, b = model(torch.randn(8, 3)).chunk(2)
    (a - b).square().mean().backward()
print(model.module[0].weight.grad.shape)
dist.destroy_process_group()
