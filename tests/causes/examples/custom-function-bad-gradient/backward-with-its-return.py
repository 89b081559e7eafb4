import torch


class Distance(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weight, x):
        ctx.save_for_backward(weight, x)
        return -(weight.unsqueeze(2) - x.unsqueeze(0)).abs().sum(1)

    @staticmethod
    def backward(ctx, grad):
        weight, x = ctx.saved_tensors
        apart = x.unsqueeze(0) - weight.unsqueeze(2)
        return (apart.sign() * grad.unsqueeze(1)).sum(2), (-apart.sign() * grad.unsqueeze(1)).sum(0)


torch.manual_seed(0)
weight = torch.randn(3, 2, requires_grad=True)
x = torch.randn(2, 4, requires_grad=True)
Distance.apply(weight, x).sum().backward()
