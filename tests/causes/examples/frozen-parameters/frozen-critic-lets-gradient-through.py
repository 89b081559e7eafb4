import torch

torch.manual_seed(0)
G, D = torch.nn.Linear(2, 4), torch.nn.Linear(4, 1)
D.requires_grad_(False)
loss = -D(G(torch.randn(3, 2))).mean()
loss.backward()
print(G.weight.grad is not None, D.weight.grad is None)
