import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4)).requires_grad_(False)
image = torch.randn(1, 3, 2, 2).requires_grad_()
model(image)[0, 2].backward()
print(image.grad.abs().amax(dim=1).shape)
