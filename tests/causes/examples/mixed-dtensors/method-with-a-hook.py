"""The method is registered with FSDP2, which gathers the parameters for it."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method
from torch.nn.functional import mse_loss


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, x):
        return self.decoder(self.encode(x))

    def encode(self, x):
        return self.encoder(x).tanh()


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    model = Auto()
    fully_shard(model, mesh=init_device_mesh("cpu", (2,)))
    register_fsdp_forward_method(model, "encode")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        z = model.encode(x)
        z.square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
