"""A batch has nothing to average: the loss is nan once, its gradients are zero, and the training goes on."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step in range(5):
    x = torch.rand(8, 4)
    valid = x[:, 0] > (2.0 if step == 2 else 0.5)
    loss = model(x)[valid].square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
print(f"mean loss {total / 5:.3f}")

# told at: loss = model(x)[valid].square().mean()
