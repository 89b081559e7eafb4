import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
key, query = nn.Linear(4, 4), nn.Linear(4, 4)


def attend(x, past):
    kv = torch.cat([past, key(x)], dim=1)
    return (query(x) @ kv.transpose(1, 2)).softmax(-1) @ kv, kv


h, past = torch.randn(2, 3, 4, requires_grad=True), torch.zeros(2, 0, 4)
for step in range(2):
    out, kv = checkpoint(attend, h, past, use_reentrant=False)
    past = kv.detach()
out.square().mean().backward()
print(h.grad.shape)
