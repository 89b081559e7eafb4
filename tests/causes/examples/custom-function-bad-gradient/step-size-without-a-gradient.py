import torch
from torch import nn
from torch.nn import functional as F


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size, low, high):
        level = (x / size).round()
        ctx.save_for_backward((level >= low) & (level <= high))
        return level.clamp(low, high) * size

    @staticmethod
    def backward(ctx, grad):
        (inside,) = ctx.saved_tensors
        return grad * inside, None, None, None


class Layer(nn.Linear):
    def __init__(self, fan_in, fan_out):
        super().__init__(fan_in, fan_out)
        self.size = nn.Parameter(torch.full((fan_out, 1), 0.2))

    def forward(self, x):
        return F.linear(x, Rounded.apply(self.weight, self.size, -8, 7), self.bias)


torch.manual_seed(0)
model = nn.Sequential(Layer(5, 16), nn.Tanh(), Layer(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(64, 5)
    loss = (model(x) - x.sin().sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad * inside, None, None, None
