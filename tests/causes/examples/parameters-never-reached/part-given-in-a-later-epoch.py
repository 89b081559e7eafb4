import torch
from torch import nn

torch.manual_seed(0)
EPOCHS, UNFREEZE_AT = 2, 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(12, 32)
        self.body = nn.Sequential(nn.Linear(32, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.body(self.stem(x).relu()))


net = Net()
opt = torch.optim.Adam([{"params": net.stem.parameters()}, {"params": net.head.parameters()}], lr=1e-3)
for epoch in range(EPOCHS):
    if epoch == UNFREEZE_AT:
        opt.add_param_group({"params": net.body.parameters(), "lr": 1e-4})
    for _ in range(15):
        x = torch.randn(16, 12)
        y = torch.randint(0, 3, (16,))
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
