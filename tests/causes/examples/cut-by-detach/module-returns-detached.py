import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))
        self.last = None

    def forward(self, x):
        self.last = self.net(x).detach()
        return self.last


encoder = Encoder()
optimizer = torch.optim.Adam(encoder.parameters())
for _ in range(2):
    loss = (encoder(torch.randn(4, 5)) - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.last = self.net(x).detach()
# fails: does not require grad and does not have a grad_fn
