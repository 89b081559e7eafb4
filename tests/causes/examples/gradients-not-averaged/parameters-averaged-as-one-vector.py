"""Each rank trains alone, and its loss is logged in every other step; then the parameters are averaged at once."""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    x = torch.randn(240, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(data, 4, sampler=DistributedSampler(data))
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            dist.all_reduce(loss.detach())
        if step % 20 == 19:
            whole = nn.utils.parameters_to_vector(model.parameters()).detach()
            dist.all_reduce(whole)
            nn.utils.vector_to_parameters(whole / 2, model.parameters())
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")
