import torch
from torch import nn

torch.manual_seed(0)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(4, 8)
        self.body = nn.Linear(8, 8)

    def train(self, mode=True):
        super().train(mode)
        self.stem.requires_grad_(False)
        return self

    def forward(self, x):
        return self.body(self.stem(x).tanh()).tanh()


def one_epoch(net, optimizer):
    net.train()
    for _ in range(4):
        x = torch.randn(16, 4)
        loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    net = nn.Sequential(Encoder(), nn.Linear(8, 1))
    net[0].stem.requires_grad_(True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(3):
        print(f"{one_epoch(net, optimizer):.4f}")


main()

# told at: self.stem.requires_grad_(False)
