import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def perturbed(x, target, size=0.1):
    delta = torch.zeros(5, 4, requires_grad=True)
    delta.uniform_(-size, size)
    for _ in range(3):
        nn.functional.cross_entropy(model(x + delta), target).backward()
        with torch.no_grad():
            delta += 0.02 * delta.grad.sign()
        delta.grad.zero_()
    return x + delta.detach()


for step in range(5):
    x, target = torch.randn(5, 4), torch.randint(0, 3, (5,))
    attacked = perturbed(x, target)
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(attacked), target).backward()
    optimizer.step()

# told at: delta.uniform_(-size, size)
# fails: a leaf Variable that requires grad is being used in an in-place operation
