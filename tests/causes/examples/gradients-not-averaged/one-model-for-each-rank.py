"""Each rank tries a learning rate of its own: no gradient is to be shared."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import mse_loss


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * (rank + 1))
    for _ in range(6):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    found = [torch.zeros(()) for _ in range(2)]
    dist.all_gather(found, loss.detach())
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
