import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"pos": nn.Linear(4, 3), "ner": nn.Linear(4, 2)})

    def forward(self, x, task):
        return self.heads[task](x)


model = DDP(Tagger(), find_unused_parameters=True)
for task in ("pos", "ner"):
    model(torch.randn(5, 4), task).square().mean().backward()
dist.destroy_process_group()
