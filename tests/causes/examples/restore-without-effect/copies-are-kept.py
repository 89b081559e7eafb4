import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
best = copy.deepcopy(model.state_dict())
kept = {name: value.clone() for name, value in model.state_dict().items()}
for step in range(12):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    if step == 6:
        model.load_state_dict(kept)
model.load_state_dict(best)
