import torch

torch.manual_seed(0)
slope = torch.zeros(2, 1, requires_grad=True)
speed = torch.zeros(2, 1)
x = torch.rand(24, 2)
y = x @ torch.tensor([[1.0], [-2.0]])
rate, memory = 0.1, 0.9
for _ in range(3):
    loss = (x @ slope - y).pow(2).mean()
    loss.backward()
    speed = memory * speed + slope.grad
    slope -= rate * speed
    slope.grad = None

# told at: slope -= rate * speed
# fails: a leaf Variable that requires grad is being used in an in-place operation
