import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        self.features = self.encoder(x).tanh()
        self.features.retain_grad()
        return self.head(self.features)


torch.manual_seed(0)
net = Net()
run = torch.compile(net, backend="aot_eager", fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    loss = run(torch.randn(16, 4)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    print(float(net.features.grad.norm()))
    optimizer.step()

# told at: self.features.retain_grad()
# fails: retain_grad
