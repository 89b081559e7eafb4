import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)


class Enhancer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6))
        self.batch, self.wanted = None, None

    def forward(self, x):
        return self.layers(x)

    def best_of(self, x):
        return torch.maximum(self(x).clone(), x.sqrt())

    def loss(self, batch):
        wanted, loss = self.best_of(batch), None
        if self.batch is not None:
            loss = mse_loss(self(self.batch), self.wanted)
        self.batch = batch
        self.wanted = wanted
        return loss


net = Enhancer()
optimizer = torch.optim.Adam(net.parameters())
for batch in torch.rand(5, 4, 6):
    loss = net.loss(batch)
    if loss is not None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

# told at: self.wanted = wanted
# fails: modified by an inplace operation
