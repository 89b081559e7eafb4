import torch
from torch import nn
from torch.nn import functional as F


class Rounded(torch.autograd.Function):
    """The step size follows the weights, by itself."""

    @staticmethod
    def forward(ctx, x, size):
        level = (x / size).round()
        ctx.save_for_backward(level.abs() <= 7)
        return level.clamp(-7, 7) * size

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None


class Layer(nn.Linear):
    def __init__(self, fan_in, fan_out):
        super().__init__(fan_in, fan_out)
        self.size = nn.Parameter(torch.full((1,), 0.2))

    def forward(self, x):
        with torch.no_grad():
            self.size.lerp_(self.weight.abs().max() / 7, 0.1)
        return F.linear(x, Rounded.apply(self.weight, self.size), self.bias)


torch.manual_seed(0)
model = nn.Sequential(Layer(5, 16), nn.Tanh(), Layer(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(64, 5)
    loss = (model(x) - x.sin().sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
