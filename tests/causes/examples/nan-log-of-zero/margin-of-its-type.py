import torch
from torch import nn

torch.manual_seed(0)


def objective(model, step):
    chance = torch.sigmoid(60 * model(torch.randn(5, 4)).bfloat16())
    kept = torch.log1p(-chance.clamp(max=1.0 - 1e-2))
    return (1.0 - torch.exp(kept.sum(1)) - 0.5).square().mean()


model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)
