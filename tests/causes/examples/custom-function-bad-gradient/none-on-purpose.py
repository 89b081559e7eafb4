import torch
from torch import nn


class Rows(torch.autograd.Function):
    """An index and a flag have no gradient; the table has."""

    @staticmethod
    def forward(ctx, table, index, scaled):
        ctx.save_for_backward(table, index)
        return table[index] * (2 if scaled else 1)

    @staticmethod
    def backward(ctx, grad):
        table, index = ctx.saved_tensors
        grad_table = torch.zeros_like(table).index_add_(0, index, 2 * grad)
        return grad_table, None, None


class Stop(torch.autograd.Function):
    """What comes before is not trained by what comes behind."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        size = grad.norm()
        if size.isnan():
            print("a gradient is nan")
        return None


torch.manual_seed(0)
table = nn.Parameter(torch.randn(5, 4))
body, head, frozen = nn.Linear(4, 4), nn.Linear(4, 1), nn.Linear(4, 4)
frozen.requires_grad_(False)
optimizer = torch.optim.SGD([table, *body.parameters(), *head.parameters(), *frozen.parameters()], lr=0.01)
for _ in range(10):
    x = Rows.apply(table, torch.randint(5, (16,)), True)
    loss = head(Stop.apply(body(frozen(x.detach())))).square().mean() + x.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
