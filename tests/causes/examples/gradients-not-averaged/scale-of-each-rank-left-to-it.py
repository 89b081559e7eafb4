import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss




def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    scale = nn.Parameter(torch.ones(1) + rank)
    model.register_parameter("scale", scale)
    fully_shard(model, mesh=mesh, ignored_params={scale})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    torch.manual_seed(rank)
    for _ in range(5):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = mse_loss(model(x) * model.scale, x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")

