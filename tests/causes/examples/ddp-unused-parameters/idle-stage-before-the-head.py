"""One stage of a nested backbone is not called: its number is not that of the head, which lies nearer to the top."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for stage in self.stages[1:]:
            x = stage(x).relu()
        return x


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = Backbone(), nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.backbone(x))


model = DDP(Classifier())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(5, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: model = DDP(Classifier())
# fails: Expected to have finished reduction in the prior iteration before starting a new one
