import torch

torch.manual_seed(0)
x = torch.randn(3, requires_grad=True)
y = torch.tanh(x) ** 2
rows = []
for i in range(3):
    rows.append(torch.autograd.grad(y[i], x, retain_graph=i < 2)[0])
jacobian = torch.stack(rows)
