import torch

torch.manual_seed(0)
w, x = torch.randn(3, requires_grad=True), torch.randn(5, 3)
for step in range(3):
    w.grad.zero_()
    (x @ w).square().mean().backward()
    with torch.no_grad():
        w -= 0.1 * w.grad

# told at: w.grad.zero_()
# fails: 'NoneType' object has no attribute 'zero_'
