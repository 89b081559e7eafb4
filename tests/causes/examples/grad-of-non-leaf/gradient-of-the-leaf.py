import torch
import torch.nn.functional as F

torch.manual_seed(0)
model, x, y = torch.nn.Linear(6, 3), torch.rand(4, 6), torch.randint(3, (4,))
delta = torch.empty_like(x).uniform_(-0.1, 0.1).requires_grad_()
F.cross_entropy(model(x + delta), y).backward()
print((x + 0.1 * delta.grad.sign()).clamp(-1, 1).shape)
