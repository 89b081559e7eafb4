import torch

torch.manual_seed(0)
w = torch.randn(3, requires_grad=True)
x = torch.randn(5, 3)
energy = (x @ w).tanh().sum()
energy.backward()
flatness = w.grad.square().sum()
flatness.backward()

# told at: energy.backward()
# fails: does not require grad and does not have a grad_fn
