"""The program goes past the wrapper, and averages the parameters after each step."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def average(parameters):
    with torch.no_grad():
        for p in parameters:
            dist.all_reduce(p)
            p /= dist.get_world_size()


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(4):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        mse_loss(model.module(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        average(model.parameters())
    del model, optimizer  # first: gloo can wait for ever where DDP is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
