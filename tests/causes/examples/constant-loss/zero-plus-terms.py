import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 2)
total = torch.zeros(())
for row in torch.randn(3, 4):
    total = total + net(row).square().mean()
total.backward()
print(net.weight.grad is not None)
