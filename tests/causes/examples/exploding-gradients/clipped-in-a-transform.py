import torch
from torch.func import grad_and_value


def objective(weights, x):
    h = x
    for _ in range(12):
        h = h @ weights["turn"]
    return (h @ weights["out"]).sub(1).square().mean()


torch.manual_seed(0)
weights = {"turn": torch.eye(4) + 0.3 * torch.randn(4, 4), "out": torch.randn(4, 1)}
for _ in range(40):
    x = torch.randn(16, 4)
    gradients, loss = grad_and_value(objective)(weights, x)
    size = sum(g.square().sum() for g in gradients.values()).sqrt()
    rate = 0.03 / size.clamp_min(1.0)
    weights = {name: weights[name] - rate * gradients[name] for name in weights}
print(float(loss))
