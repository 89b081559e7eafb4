import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1))
x = torch.randn(30, 2)
y = (x[:, :1] * x[:, 1:]).sin()
solver = torch.optim.LBFGS(net.parameters(), lr=0.3, max_iter=5)
for _ in range(4):
    guess = net(x)

    def measure():
        solver.zero_grad()
        misfit = (guess - y).square().mean()
        misfit.backward(retain_graph=True)
        return misfit

    solver.step(measure)

# told at: misfit.backward(retain_graph=True)
# fails: modified by an inplace operation
