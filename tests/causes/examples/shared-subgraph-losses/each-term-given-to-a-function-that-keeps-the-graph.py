import torch
from torch import nn


class Backend:
    def differentiate(self, loss):
        loss.backward(retain_graph=True)


class Weather(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
        self.rain, self.wind = nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        seen = self.trunk(x)
        return {"rain": self.rain(seen), "wind": self.wind(seen)}


torch.manual_seed(0)
model, backend = Weather(), Backend()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    told = model(torch.randn(6, 5))
    terms = {name: (value - 1.0).square().mean() for name, value in told.items()}
    optimizer.zero_grad()
    for name in terms:
        backend.differentiate(terms[name])
    optimizer.step()
