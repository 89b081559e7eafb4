import torch

torch.manual_seed(0)
scale = torch.rand(4, requires_grad=True)
table = torch.randn(3, 4) + scale
for i in range(len(table)):
    table[i].mul_(i + 1)
table[:, :2] += 1
table.view(-1)[0] = 0
table.sum().backward()
