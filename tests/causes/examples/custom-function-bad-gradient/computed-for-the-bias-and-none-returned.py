import torch


class Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad @ weight
        grad_weight = grad.T @ x
        grad_bias = grad.sum(0)
        return grad_x, grad_weight, None


torch.manual_seed(0)
weight, bias = torch.nn.Parameter(torch.randn(2, 3)), torch.nn.Parameter(torch.zeros(2))
optimizer = torch.optim.SGD([weight, bias], lr=0.01)
for _ in range(10):
    x, y = torch.randn(16, 3), torch.randn(16, 2)
    loss = torch.nn.functional.mse_loss(Affine.apply(x, weight, bias), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad_x, grad_weight, None
