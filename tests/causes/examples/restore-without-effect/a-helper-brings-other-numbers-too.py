import torch
from torch import nn


def put_in(model, weights):
    model.load_state_dict(weights)


torch.manual_seed(0)
x = torch.randn(16, 5)
model, shown = nn.Linear(5, 1), nn.Linear(5, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    shared = model.state_dict()
    optimizer.zero_grad()
    (model(x) - x.mean(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    for one in (model, shown):
        put_in(one, shared)
    with torch.no_grad():
        print(f"{shown(x).mean().item():.4f}")
