"""The forward's place is taken by `setup_context`, and backward returns only where both gradients are wanted."""

import torch


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(u, v):
        return torch.outer(u, v)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        grad_u = grad @ v
        grad_v = u @ grad
        if all(ctx.needs_input_grad):
            return grad_u, grad_v


torch.manual_seed(0)
u, v = torch.randn(3, requires_grad=True), torch.randn(2)
Outer.apply(u, v).square().sum().backward()

# told at: def backward(ctx, grad):
# fails: returned an incorrect number of gradients (expected 2, got 1)
