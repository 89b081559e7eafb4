import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
weight = net.weight
x = torch.randn(2, 3)
loss = net(x).sum()
by_weight, by_x = torch.autograd.grad(loss, [weight, x])

# told at: x = torch.randn(2, 3)
# fails: One of the differentiated Tensors does not require grad
