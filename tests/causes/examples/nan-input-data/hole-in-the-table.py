import numpy as np
import torch
from torch import nn

torch.manual_seed(0)


numbers = np.random.default_rng(0).standard_normal((24, 4)).astype("float32")
numbers[13, 2] = np.nan
table = torch.from_numpy(numbers)


def objective(model, step):
    rows = table[4 * step : 4 * step + 4]
    return model(rows).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: table = torch.from_numpy(numbers)
