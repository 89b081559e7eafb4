import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    mask = torch.ones(4, 4).tril()
    scores = model(torch.randn(4, 4)) + (1 - mask) * float("-inf")
    return torch.softmax(scores, dim=-1).square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: scores = model(torch.randn(4, 4)) + (1 - mask) * float("-inf")
