import torch

torch.manual_seed(0)
x, y = torch.randn(16, 3), torch.randn(16)
w = torch.zeros(3, requires_grad=True)
for step in range(3):
    loss = (x @ w - y).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
    w.grad.zero_()
print(w.is_leaf)
