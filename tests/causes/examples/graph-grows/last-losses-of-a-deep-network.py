import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(*(nn.Linear(3, 3) for _ in range(120)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
last = []
for i in range(105):
    loss = net(torch.randn(2, 3)).pow(2).mean()
    last = [*last, loss][-80:]
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if i % 20 == 0:
        print(torch.stack(last).mean().item())
