import warnings

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

warnings.filterwarnings("ignore", "FSDP2-wrapped module")
torch.manual_seed(0)
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(6, 6)
        self.out = nn.Linear(6, 6)

    def forward(self, x):
        states = self.out(torch.tanh(self.proj(x)))
        return states[:, 0]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = Embed()
        self.head = nn.Linear(6, 1)

    def forward(self, x, y):
        first = self.embed(x)
        first.mul_(0.5)
        first[y < 0] = 0
        return self.head(first)


mesh = init_device_mesh("cpu", (1,))
model = Model()
fully_shard(model.embed, mesh=mesh, reshard_after_forward=True)
fully_shard(model, mesh=mesh)
opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
for step in range(3):
    x, y = torch.randn(8, 1, 6), torch.randn(8, 6)
    loss = model(x, y).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
dist.destroy_process_group()

# told at: first.mul_(0.5)
# fails: out of bounds for storage of size 0
