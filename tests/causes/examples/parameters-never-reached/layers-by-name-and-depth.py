import torch
from torch import nn


class Branches(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.mix = nn.Linear(4 * len(names), 1)
        self.paths = {}
        for name in names:
            path = [nn.Linear(3, 4)]
            for _ in range(2):
                path.append(nn.Linear(4, 4))
            self.paths[name] = path

    def forward(self, inputs):
        found = []
        for name, x in inputs.items():
            for layer in self.paths[name]:
                x = layer(x).tanh()
            found.append(x)
        return self.mix(torch.cat(found, 1))


torch.manual_seed(0)
net = Branches(["left", "right"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(10):
    inputs = {"left": torch.randn(8, 3), "right": torch.randn(8, 3)}
    target = (inputs["left"] - inputs["right"]).sum(1, keepdim=True)
    loss = (net(inputs) - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.paths = {}
