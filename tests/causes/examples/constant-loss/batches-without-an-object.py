import torch
from torch import nn
from torch.nn.functional import mse_loss

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step, x in enumerate(torch.randn(14, 6, 4)):
    found = x[x[:, 0] > (-9 if step % 3 == 0 else 9)]
    loss = mse_loss(model(found), found[:, :1]) if len(found) else torch.tensor(0.0, requires_grad=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
