import torch

c = torch.tensor([1, 0, 2], dtype=torch.float32, requires_grad=True)
(sum(v * 0.5**n for n, v in enumerate(c)) - 1).square().backward()
print(c.grad)
