import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    loss = model(torch.randn(4, 3)).pow(2).mean()
    norm = torch.autograd.grad(loss, model[2].weight, retain_graph=True)[0].norm()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
