import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(4, 4)
        self.out = nn.Linear(4, 1)
        self.state = {"h": torch.zeros(2, 4)}

    @torch.compile(backend="aot_eager")
    def forward(self, x):
        z = self.cell(x)
        self.state["h"] = torch.tanh(z + self.state["h"])
        return self.out(self.state["h"])


torch.manual_seed(0)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    loss = net(torch.randn(2, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()

# told at: self.state["h"] = torch.tanh(z + self.state["h"])
# fails: Trying to backward through the graph a second time
