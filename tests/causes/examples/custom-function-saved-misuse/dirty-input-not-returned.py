import torch


class AddOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1).clone()

    @staticmethod
    def backward(ctx, grad):
        return grad


w = torch.zeros(3, requires_grad=True)
AddOne.apply(w * 2).sum().backward()

# told at: ctx.mark_dirty(x)
# fails: Some elements marked as dirty during the forward method were not returned as output
