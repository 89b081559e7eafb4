import torch


class Outer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, v):
        ctx.save_for_backward(u, v)
        return torch.outer(u, v)

    @staticmethod
    def backward(ctx, grad):
        u, v = ctx.saved_tensors
        grad_u = grad @ v
        if ctx.needs_input_grad[1]:
            return grad_u, u @ grad
        return grad_u, None


torch.manual_seed(0)
u, v = torch.randn(3, requires_grad=True), torch.randn(2)
Outer.apply(u, v).square().sum().backward()
