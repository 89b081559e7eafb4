"""A batch fails and is skipped, and its graph was not the wrapper's: nothing waits for it."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

model = DDP(nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in (4, 9, 5):
    optimizer.zero_grad()
    try:
        loss = model.module(torch.randn(rows, 4)).square()
        (loss.mean() if rows < 8 else loss).backward()
    except RuntimeError as error:
        print("skipped:", error)
        continue
    optimizer.step()
    optimizer.zero_grad()
    model(torch.randn(rows, 4)).square().mean().backward()
    optimizer.step()
