import torch
from torch import nn

torch.manual_seed(0)


best = -torch.log(torch.zeros(()))


def objective(model, step):
    global best
    loss = model(torch.ones(3, 4)).square().mean()
    best = torch.minimum(best, loss.detach())
    return loss


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
