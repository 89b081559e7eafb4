import torch
from torch import nn

models = [nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)) for _ in range(2)]
optimizers = [torch.optim.Adam(m.parameters(), lr=0.01) for m in models]
losses = []
for x in torch.randn(3, 6, 4):
    for i in range(2):
        loss = models[i](x).square().mean()
        losses.append(loss)
        optimizers[i].zero_grad()
        losses[-1].backward()
        optimizers[i].step()
        losses[-1] = losses[-1].item()
