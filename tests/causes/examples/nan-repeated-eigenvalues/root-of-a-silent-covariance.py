import torch
from torch import nn

torch.manual_seed(0)


def root(a):
    values, vectors = torch.linalg.eigh(a)
    return (vectors * values.clamp(min=1e-7).sqrt()) @ vectors.mT


def objective(model, step):
    x = model(torch.randn(4, 9).t()).t() * (0 if step == 3 else 1)
    return root(x @ x.t() / 9 + 1e-3 * torch.eye(4)).sum()


model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(6):
    loss = objective(model, step)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(step)

# told at: values, vectors = torch.linalg.eigh(a)
# fails: failed to converge
