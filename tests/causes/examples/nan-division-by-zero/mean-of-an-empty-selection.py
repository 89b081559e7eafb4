import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    out = model(torch.randn(5, 4))
    wanted = torch.arange(5) >= (5 if step == 3 else 2)
    loss = out[wanted].square().mean()
    return loss * out.square().mean()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: loss = out[wanted].square().mean()
