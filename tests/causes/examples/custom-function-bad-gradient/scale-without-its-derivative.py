import torch
from torch import nn


class Stretch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, log_scale):
        ctx.save_for_backward(x, log_scale)
        return x * log_scale.exp()

    @staticmethod
    def backward(ctx, grad):
        x, log_scale = ctx.saved_tensors
        return grad * log_scale.exp(), grad * x


torch.manual_seed(0)
net = nn.Conv1d(2, 4, 3, padding=1)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(8, 2, 6)
    shift, log_scale = net(x).chunk(2, 1)
    y = Stretch.apply(x + shift, log_scale.tanh() + 1.0)
    loss = (y.square() / 2 - log_scale).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad * log_scale.exp(), grad * x
