"""Only the head is to learn, and the backward is told so; the wrapper was made for all of the model."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

model = DDP(nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1)))
head = list(model.module[2].parameters())
optimizer = torch.optim.SGD(head, lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4)).square().mean()
    loss.backward(inputs=head)
    optimizer.step()

# told at: loss.backward(inputs=head)
# fails: Expected to have finished reduction in the prior iteration before starting a new one
