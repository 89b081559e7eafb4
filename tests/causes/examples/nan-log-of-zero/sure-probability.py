import torch
from torch import nn

torch.manual_seed(0)


def objective(model):
    chance = torch.sigmoid(model(torch.ones(3, 4)) * 40)
    return -(1 - chance).log().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return -(1 - chance).log().mean()
