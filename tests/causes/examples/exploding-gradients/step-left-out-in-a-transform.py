import torch
from torch.func import grad_and_value


def objective(weights, x):
    return (x @ weights).log().mean()


torch.manual_seed(0)
weights = torch.rand(3) + 0.5
for step in range(8):
    x = torch.rand(5, 3)
    if step == 4:
        x = -x
    gradient, loss = grad_and_value(objective)(weights, x)
    if torch.isfinite(loss):
        weights = weights + 0.1 * gradient
print(weights)
