import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)
        self.memory = None

    def forward(self, x):
        h = torch.tanh(self.body(x))
        if self.memory is not None:
            h = h + self.memory
        self.memory = h
        return self.head(h)


net = Net()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(4):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.memory = h
# fails: second time
