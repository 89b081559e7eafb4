"""Two losses of one forward: the wrapper averages all gradients in the second call."""

import tempfile
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        second = self.b(x)
        return self.a(x), second


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(Two())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(6):
        x = torch.randn(16, 4)
        a, b = model(x)
        optimizer.zero_grad()
        (a - 1).pow(2).mean().backward()
        (b + 1).pow(2).mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
