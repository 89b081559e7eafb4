import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a)
        ctx.save_for_backward(b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a


a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
Product.apply(a, b).sum().backward()

# told at: ctx.save_for_backward(b)
# fails: not enough values to unpack (expected 2, got 1)
