import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.out = nn.Linear(4, 6), nn.Linear(6, 4)

    def forward(self, x):
        weight = torch.softmax(self.mix(x), 1)
        return self.out(weight), weight


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    made, weight = net(x)
    error = (made - x).square().mean()
    spread = weight.square().mean()
    first, second = error - 0.1 * spread, error + 0.1 * spread.exp()
    first.backward(retain_graph=True)
    optimizer.step()
    second.backward()
    optimizer.step()

# told at: optimizer.step()
# fails: modified by an inplace operation
