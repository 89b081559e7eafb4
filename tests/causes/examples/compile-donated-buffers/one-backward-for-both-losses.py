import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
model = torch.compile(net, backend="eager")
features = model(torch.randn(2, 3))
(features.square().mean() + features.abs().mean()).backward()
print(net[0].weight.grad.shape)
