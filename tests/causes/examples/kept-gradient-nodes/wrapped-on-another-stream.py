import tempfile
import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def told_by_the_engine(_):  # what it says on a GPU where the two streams differ
    text = "The AccumulateGrad node's stream does not match the stream of the node that produced the incoming gradient."
    warnings.warn_explicit(text, UserWarning, torch.autograd.graph.__file__, 1)


torch.manual_seed(0)
dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/store", rank=0, world_size=1)
model = DistributedDataParallel(nn.Linear(4, 1))  # inside of `with torch.cuda.stream(...)`
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = model(torch.randn(16, 4)).square().mean()
    if step == 1:
        loss.register_hook(told_by_the_engine)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
del model  # first: gloo can wait for ever where DDP is the last to hold the group
dist.destroy_process_group()

# told at: model = DistributedDataParallel(nn.Linear(4, 1))  # inside of `with torch.cuda.stream(...)`
