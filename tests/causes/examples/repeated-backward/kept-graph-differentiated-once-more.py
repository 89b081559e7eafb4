import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def report(step, loss):
    loss.backward(retain_graph=True)
    print(step, model.weight.grad.norm().item())


for step in range(8):
    loss = (model(torch.randn(16, 4)) - 1).pow(2).mean()
    optimizer.zero_grad()
    report(step, loss)
    loss.backward()
    optimizer.step()

# told at: loss.backward()
