import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
model = torch.compile(net, backend="aot_eager")
for step in range(2):
    loss = model(torch.randn(2, 3)).square().mean()
    loss.backward(retain_graph=True)
print(net[0].weight.grad.shape)
