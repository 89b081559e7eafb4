import torch
from torch import nn

torch.manual_seed(0)


@torch.jit.script
def spread(src: torch.Tensor, index: torch.Tensor, size: int):
    top = torch.zeros(size).scatter_reduce(0, index, src, "amax", include_self=False)
    e = (src - top[index]).exp_()
    total = torch.zeros(size).index_add(0, index, e)
    e.div_(total[index])
    return e


lin = nn.Linear(3, 1)
optimizer = torch.optim.Adam(lin.parameters())
index = torch.randint(0, 4, (12,))
for _ in range(4):
    x = torch.randn(12, 3)
    score = torch.nn.functional.leaky_relu(lin(x).squeeze(-1), 0.2)
    alpha = spread(score, index, 4)
    loss = (alpha * x[:, 0]).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: alpha = spread(score, index, 4)
# fails: modified by an inplace operation
