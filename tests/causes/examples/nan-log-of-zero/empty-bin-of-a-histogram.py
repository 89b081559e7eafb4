import torch
from torch import nn

torch.manual_seed(0)


def entropy(weights, step):
    share = torch.relu(weights) if step == 4 else weights
    share = share / share.sum()
    return -(share * torch.log(share)).sum()


def objective(model, step):
    weights = model(torch.ones(4)).softmax(0)
    return entropy(weights - 0.2 if step == 4 else weights, step)


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: return -(share * torch.log(share)).sum()
