import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(12):
    x = Variable(torch.randn(8, 3))
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss = Variable(loss, requires_grad=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: loss = Variable(loss, requires_grad=True)
