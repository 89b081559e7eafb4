"""Nothing moves because nothing is asked to: the weights are what they are to be."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(32, 4, bias=False).to(torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
aim = model.weight.detach().clone()
for _ in range(12):
    loss = (model.weight - aim).float().square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
