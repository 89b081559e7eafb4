import torch
from torch import nn


class Handed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, hidden, loss, grad):
        ctx.save_for_backward(grad)
        return loss.clone()

    @staticmethod
    def backward(ctx, grad_output):
        (grad,) = ctx.saved_tensors
        return grad, None, None


class SignOfGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return 1e-3 * grad.sign()


class Balanced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, penalty):
        ctx.save_for_backward(penalty)
        return x

    @staticmethod
    def backward(ctx, grad):
        (penalty,) = ctx.saved_tensors
        return grad, torch.full_like(penalty, 0.1)


torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(6, 16), nn.Tanh()), nn.Linear(16, 3)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.1)
for _ in range(10):
    optimizer.zero_grad()
    x = torch.randn(16, 6)
    hidden = SignOfGradient.apply(body(x))
    hidden = Balanced.apply(hidden, hidden.pow(2).mean())
    part = hidden.detach().requires_grad_()
    loss = nn.functional.cross_entropy(head(part), x[:, :3].argmax(1))
    loss.backward()
    Handed.apply(hidden, loss.detach(), part.grad).backward()
    optimizer.step()
