import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Regularised(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.head = nn.Linear(8, 1)
        self.strength = nn.Parameter(torch.zeros(8))

    def forward(self, x, weights):
        h = torch.tanh(F.linear(x, weights["body.weight"], weights["body.bias"]))
        return F.linear(h, weights["head.weight"], weights["head.bias"])


model = Regularised()
meta = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    weights = {n: p for n, p in model.named_parameters() if n != "strength"}
    x = torch.randn(16, 3)
    y = x.sum(1, keepdim=True)
    inner = F.mse_loss(model(x, weights), y) + (model.strength.exp() * weights["head.weight"].square()).mean()
    grads = torch.autograd.grad(inner, list(weights.values()))
    adapted = {n: w - 0.1 * g for (n, w), g in zip(weights.items(), grads)}
    outer = F.mse_loss(model(x + 0.1, adapted), y)
    meta.zero_grad()
    outer.backward()
    meta.step()
print(outer.item())

# told at: grads = torch.autograd.grad(inner, list(weights.values()))
