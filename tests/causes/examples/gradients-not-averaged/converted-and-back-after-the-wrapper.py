"""A model that is converted after it was wrapped, for an export between two epochs, and back again."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for epoch in range(2):
        for _ in range(3):
            loss = model(torch.randn(8, 6)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch == 0:
            weights = {name: p.detach().clone() for name, p in model.half().named_parameters()}
            model.float()
    print(len(weights))
    del model, optimizer  # first: gloo can wait for ever where DDP is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")

# told at: loss = model(torch.randn(8, 6)).pow(2).mean()
