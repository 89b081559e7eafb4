import torch
from torch import nn


class Stack(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.more = []
        for _ in range(depth - 1):
            self.more.append(nn.Linear(6, 6))

    def forward(self, x):
        x = self.first(x)
        for layer in self.more:
            x = layer(x.tanh())
        return x


torch.manual_seed(0)
stack = Stack(2)
sgd = torch.optim.SGD(stack.parameters(), lr=0.1)
for _ in range(10):
    sgd.zero_grad()
    stack(torch.randn(3, 4)).pow(2).mean().backward()
    sgd.step()

# told at: self.more = []
