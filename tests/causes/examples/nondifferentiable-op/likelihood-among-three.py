import torch
from torch import nn


def partial_likelihood(risk, time):
    risk = risk[time.argsort()]
    at_risk = risk.flip(0).logcumsumexp(0).flip(0)
    return (at_risk - risk).mean()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(10):
    x = torch.randn(3, 4)
    loss = partial_likelihood(model(x).squeeze(1), x.sum(1).exp())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
