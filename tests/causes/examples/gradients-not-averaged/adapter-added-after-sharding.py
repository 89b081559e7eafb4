import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import mse_loss


class Adapted(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(2, base.in_features) * 0.1)
        self.up = nn.Parameter(torch.zeros(base.out_features, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (2,))
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).requires_grad_(False)
    fully_shard(model, mesh=mesh)
    model[0] = Adapted(model[0])
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    torch.manual_seed(rank)
    for _ in range(5):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        loss = mse_loss(model(x), x.sum(1, keepdim=True))
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")

# told at: fully_shard(model, mesh=mesh)
