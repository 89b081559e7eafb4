import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.kv, self.cache = nn.Linear(d, d), nn.Linear(d, d), None

    def forward(self, x):
        kv = self.kv(x)
        if self.cache is not None:
            kv = torch.cat([self.cache, kv], dim=1)
        self.cache = kv.detach()
        return (self.q(x) @ kv.transpose(1, 2)).softmax(-1) @ kv


layer = Attention(4)
h = torch.randn(2, 3, 4, requires_grad=True)
out = checkpoint(layer, h, use_reentrant=False)
out.square().mean().backward()

# told at: out = checkpoint(layer, h, use_reentrant=False)
# fails: have different metadata than during the forward pass
