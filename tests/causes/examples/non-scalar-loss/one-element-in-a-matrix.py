import torch

torch.manual_seed(0)
model = torch.nn.Linear(5, 1)
model(torch.randn(1, 5)).backward()
per_sample = torch.autograd.grad(model(torch.randn(3, 5)), model.weight, grad_outputs=torch.ones(3, 1))
print(per_sample[0].shape)
