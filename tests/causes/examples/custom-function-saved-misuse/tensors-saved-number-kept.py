import torch

torch.manual_seed(0)


class Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, threshold):
        ctx.save_for_backward(x)
        ctx.threshold = threshold
        return x.sign() * (x.abs() - threshold).clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (x.abs() > ctx.threshold), None


w = torch.randn(5, requires_grad=True)
Soft.apply(w, 0.3).sum().backward()
print(w.grad.shape)
