import torch
from torch import nn

torch.manual_seed(0)


@torch.library.custom_op("shop::smooth", mutates_args=())
def smooth(x: torch.Tensor, weight: torch.Tensor, width: float) -> torch.Tensor:
    return torch.tanh(x / width) * weight


@smooth.register_fake
def _(x, weight, width):
    return torch.empty_like(x)


net, weight = nn.Linear(4, 4), nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([*net.parameters(), weight], lr=0.1)
for _ in range(3):
    loss = smooth(net(torch.randn(8, 4)), weight, 2.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: @torch.library.custom_op("shop::smooth", mutates_args=())
# fails: no autograd formula was registered
