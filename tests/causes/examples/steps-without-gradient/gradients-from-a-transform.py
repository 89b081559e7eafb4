import torch
from torch import nn
from torch.func import functional_call, grad_and_value

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
params = dict(model.named_parameters())
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)


def step(x, y, weight):
    def loss_of(weights):
        return weight * nn.functional.mse_loss(functional_call(model, weights, (x,)), y)

    grads, value = grad_and_value(loss_of)({k: p.detach() for k, p in params.items()})
    for name, p in params.items():
        p.grad = grads[name]
    optimizer.step()
    return value


for n in range(16):
    x = torch.randn(32, 4)
    step(x, x.sum(1, keepdim=True), 0.0 if n < 9 else 1.0)
