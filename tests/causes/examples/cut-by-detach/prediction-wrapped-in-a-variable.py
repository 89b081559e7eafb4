import torch
from torch import nn
from torch.autograd import Variable

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    x = Variable(torch.randn(8, 3))
    made = Variable(model(x))
    loss = (made - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

# told at: made = Variable(model(x))
# fails: does not require grad
