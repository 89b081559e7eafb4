import torch

torch.manual_seed(0)
image = torch.randint(0, 255, (3, 4)).float()
image /= 255
image.requires_grad_()
image.pow(2).sum().backward()
image.grad *= 2
