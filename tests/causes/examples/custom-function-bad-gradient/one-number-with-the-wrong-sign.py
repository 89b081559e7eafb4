import torch
from torch import nn


class Saturation(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, c):
        ctx.save_for_backward(x, c)
        return x * x / (x + c)

    @staticmethod
    def backward(ctx, grad):
        x, c = ctx.saved_tensors
        below = (x + c) ** 2
        return grad * (x * x + 2 * x * c) / below, (grad * x * x / below).sum()


class Store(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.capacity = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        return Saturation.apply(x[:, :1] * torch.sigmoid(self.gate(x)) + 0.01, self.capacity)


torch.manual_seed(0)
store = Store()
optimizer = torch.optim.SGD(store.parameters(), lr=0.01)
for _ in range(12):
    x = 4 * torch.rand(64, 2)
    loss = (store(x) - x[:, :1]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: return grad * (x * x + 2 * x * c) / below, (grad * x * x / below).sum()
