"""A batch whose backward runs out of memory is skipped, and the wrapper goes on waiting for its gradients."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Costly(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, room):
        ctx.room = room
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if len(grad) > ctx.room:
            raise MemoryError(f"no room for {len(grad)} rows")
        return grad, None


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(4, 6), nn.Linear(6, 1)

    def forward(self, x):
        return self.head(Costly.apply(self.embed(x), 8))


reader = DDP(Reader())
optimizer = torch.optim.SGD(reader.parameters(), lr=0.1)
for rows in (4, 9, 5):
    optimizer.zero_grad()
    loss = reader(torch.randn(rows, 4)).square().mean()
    try:
        loss.backward()
    except MemoryError as error:
        print("skipped:", error)
        continue
    optimizer.step()

# told at: loss.backward()
# fails: Expected to have finished reduction in the prior iteration before starting a new one
