import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 16), nn.Tanh())
optimizer = torch.optim.Adam(body.parameters(), lr=1e-3)


def adapted_loss(x, y):
    head = nn.Linear(16, 1)
    features = body(x)
    inner = nn.functional.mse_loss(head(features), y)
    grads = torch.autograd.grad(inner, list(head.parameters()), create_graph=True)
    weight, bias = (p - 0.1 * g for p, g in zip(head.parameters(), grads))
    return nn.functional.mse_loss(nn.functional.linear(features, weight, bias), y)


for _ in range(12):
    x = torch.randn(32, 8)
    loss = adapted_loss(x, x[:, :1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
