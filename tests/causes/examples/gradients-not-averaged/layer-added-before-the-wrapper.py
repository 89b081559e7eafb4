import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    net.append(nn.Linear(2, 1))
    model = DistributedDataParallel(net.to(torch.float64).float())  # the same parameters, converted
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(5):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    del model, optimizer  # first: gloo can wait for ever where DDP is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
