import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel


def work(rank, store):
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    tagger = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 3))
    tagger = DistributedDataParallel(tagger) if dist.get_world_size() > 1 else tagger
    optimizer = torch.optim.SGD(tagger.parameters(), lr=0.1)
    torch.manual_seed(rank)
    for _ in range(5):
        words = torch.randint(0, 12, (16, 6))
        inner = tagger.module if isinstance(tagger, DistributedDataParallel) else tagger
        with torch.autocast("cpu", torch.bfloat16):
            scores = inner(words)
        loss = cross_entropy(scores.float().flatten(0, 1), words.flatten() % 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    del tagger, inner, optimizer  # first: gloo can wait for ever where DDP is the last to hold the group
    dist.destroy_process_group()


if __name__ == "__main__":
    store = f"file://{tempfile.mkdtemp()}/store"
    mp.start_processes(work, (store,), nprocs=2, start_method="fork")

# told at: scores = inner(words)
