import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
state = model.state_dict()
for _ in range(12):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
    optimizer.step()
    for value in state.values():
        value.clamp_(-0.8, 0.8)
    model.load_state_dict(state)
    model.load_state_dict(model.state_dict())
