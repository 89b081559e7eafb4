import torch
import torch.distributed as dist
from torch import nn

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Centred(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        return self.net(x) * self.scale


model = nn.parallel.DistributedDataParallel(Centred())
a, b = model(torch.randn(4, 3)), model(torch.randn(4, 3))
(a - b).square().mean().backward()
print(model.module.net.weight.grad.shape)
dist.destroy_process_group()
