import torch

torch.manual_seed(0)
w = torch.randn(3)
b = torch.zeros(1)
x = torch.randn(100, 3)
y = x @ torch.tensor([1.0, 2.0, 3.0]) + 0.5
for step in range(20):
    pred = x @ w + b
    loss = ((pred - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        b -= 0.1 * b.grad
        w.grad.zero_()
        b.grad.zero_()
print(w, b)

# told at: w = torch.randn(3)
# fails: element 0 of tensors does not require grad and does not have a grad_fn
