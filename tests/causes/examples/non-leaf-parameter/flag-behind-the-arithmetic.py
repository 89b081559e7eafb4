import torch

torch.manual_seed(0)
images = (torch.randn(3, 4) * 0.01).requires_grad_()
optimizer = torch.optim.SGD([images], lr=0.1)
(images - 1).square().mean().backward()
optimizer.step()
print(images.is_leaf)
