import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 6)
        self.heads = nn.ModuleDict({"pos": nn.Linear(6, 3), "ner": nn.Linear(6, 2)})

    def forward(self, x, task):
        return self.heads[task](self.body(x).relu())


model = DDP(Tagger())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for task in ("pos", "ner"):
    loss = model(torch.randn(5, 4), task).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: model = DDP(Tagger())
# fails: Expected to have finished reduction in the prior iteration before starting a new one
