import torch
from torch import nn

torch.manual_seed(0)


class Stack(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.layers = [nn.Linear(width, width) for _ in range(depth)]

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


net = Stack(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    net(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()

# told at: self.layers = [nn.Linear(width, width) for _ in range(depth)]
# fails: optimizer got an empty parameter list
