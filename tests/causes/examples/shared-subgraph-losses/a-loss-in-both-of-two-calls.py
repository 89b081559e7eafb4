import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(3):
    y = net(torch.randn(4, 3))
    a, b, c = y.exp().mean(), y.sigmoid().mean(), y.tanh().mean()
    opt.zero_grad()
    torch.autograd.backward([a, b])
    torch.autograd.backward([a, c])
    opt.step()

# told at: torch.autograd.backward([a, b])
# fails: Trying to backward through the graph a second time
