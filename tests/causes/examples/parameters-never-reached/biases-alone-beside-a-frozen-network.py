"""The biases alone are trained, asked for by names of which not each is there; frozen is a layer whose name begins
as that of another one does."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedded = nn.Linear(6, 8).requires_grad_(False)
        self.embed = nn.Linear(8, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.embed(self.embedded(x)).relu())


net = Net()
wanted = ("head", "adapter", "bias")
chosen = [p for name, p in net.named_parameters() if p.requires_grad and any(w in name for w in wanted)]
optimizer = torch.optim.AdamW(chosen, lr=1e-2)
x, y = torch.randn(50, 6), torch.randint(0, 3, (50,))
for _ in range(12):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
