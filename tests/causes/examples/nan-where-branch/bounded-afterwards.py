import torch
from torch import nn

torch.manual_seed(0)


def unit(x):
    total = x.square().sum(-1, keepdim=True)
    scale = torch.rsqrt(total)
    return x * torch.minimum(scale, torch.tensor(1e6))


def objective(model, step):
    x = torch.randn(5, 4)
    x[2] = 0.0
    return (unit(model(x)) @ unit(model(torch.randn(5, 4))).T).square().mean()


model = nn.Linear(4, 4, bias=False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: scale = torch.rsqrt(total)
