import torch

torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
x, y = torch.randn(8, 4), torch.randn(8, 1)
inner = torch.optim.SGD(net.parameters(), lr=0.1)
weights = torch.ones(8, 1, requires_grad=True)

(weights * (net(x) - y) ** 2).mean().backward()
inner.step()
clean = ((net(x) - y) ** 2).mean()
meta = torch.autograd.grad(clean, [weights])
print(meta)

# told at: inner.step()
# fails: appears to not have been used in the graph
