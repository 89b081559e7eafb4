import torch
from torch import nn
from torch.nn import functional as F


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, size):
        ctx.save_for_backward(x, size)
        return (x / size).round().clamp(-8, 7) * size

    @staticmethod
    def backward(ctx, grad):
        x, size = ctx.saved_tensors
        level = x / size
        inside = (level >= -8) & (level <= 7)
        slope = torch.where(inside, level.round() - level, level.clamp(-8, 7))
        return grad * inside, (grad * slope).sum().reshape(size.shape)


class Layer(nn.Linear):
    def __init__(self, fan_in, fan_out):
        super().__init__(fan_in, fan_out)
        self.size = nn.Parameter(torch.full((1,), 0.2))
        self.inputs = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, x):
        x = Rounded.apply(x, self.inputs)
        return F.linear(x, Rounded.apply(self.weight, self.size), self.bias)


torch.manual_seed(0)
model = nn.Sequential(Layer(5, 32), nn.Tanh(), Layer(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(12):
    x = torch.randn(64, 5)
    loss = (model(x) - x.sin().sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
