import torch
from torch import nn
from torch.nn.functional import mse_loss, scaled_dot_product_attention


def kernel(q, k, v):
    with torch.no_grad():
        return scaled_dot_product_attention(q, k, v).clone()


library = torch.library.Library("fast", "DEF")
library.define("attention(Tensor q, Tensor k, Tensor v) -> Tensor")
library.impl("attention", kernel, "CPU")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        mixed = torch.ops.fast.attention(q, k, v)
        return x + self.out(mixed)


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), Block(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(16, 5, 4)
    optimizer.zero_grad()
    mse_loss(model(x), x.sum(-1, keepdim=True)).backward()
    optimizer.step()

# told at: mixed = torch.ops.fast.attention(q, k, v)
