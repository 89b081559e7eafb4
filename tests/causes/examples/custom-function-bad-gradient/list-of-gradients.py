import torch


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return torch.outer(u, v)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        return [grad @ v, u @ grad]


torch.manual_seed(0)
u, v = torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)
Outer.apply(u, v).square().sum().backward()

# told at: return [grad @ v, u @ grad]
# fails: returned an incorrect number of gradients (expected 2, got 1)
