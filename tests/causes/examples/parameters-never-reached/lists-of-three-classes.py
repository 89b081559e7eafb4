import torch
from torch import nn

torch.manual_seed(0)


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = []
        for size, out in ((8, 16), (16, 8)):
            self.layers.append(nn.Linear(size, out))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x


class Encoder(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.start = nn.Linear(4, 8)
        self.blocks = [Feed() for _ in range(depth)]
        self.norms = [nn.LayerNorm(8) for _ in range(depth)]

    def forward(self, x):
        x = self.start(x)
        for block, norm in zip(self.blocks, self.norms):
            x = norm(x + block(x))
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder(2)
        self.heads = [nn.Linear(8, 1) for _ in range(3)]

    def forward(self, x):
        hidden = self.encoder(x)
        return torch.cat([head(hidden) for head in self.heads], dim=1)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(8):
    x = torch.randn(16, 4)
    loss = (model(x) - x[:, :3]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: self.heads = [nn.Linear(8, 1) for _ in range(3)]
