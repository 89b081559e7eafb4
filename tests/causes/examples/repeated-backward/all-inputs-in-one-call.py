import torch

torch.manual_seed(0)
image = torch.randn(3, requires_grad=True)
text = torch.randn(3, requires_grad=True)
output = torch.tanh(image * text).sum()
grads = torch.autograd.grad(output, (image, text))
