"""Nothing is differentiated through an operator of one's own: it makes targets."""

import torch
from torch import nn

torch.manual_seed(0)


@torch.library.custom_op("shop::rounded", mutates_args=())
def rounded(x: torch.Tensor, digits: int) -> torch.Tensor:
    return x.round(decimals=digits)


net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randn(8, 4)
    loss = (net(x) - rounded(x, 1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
