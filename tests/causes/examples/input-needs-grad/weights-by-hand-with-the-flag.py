import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
b = torch.zeros(1).requires_grad_()
fixed = torch.ones(3)
x = torch.randn(100, 3)
for step in range(20):
    loss = (x @ (w + fixed) + b - x.sum(1)).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad
            p.grad = None
print(step)
